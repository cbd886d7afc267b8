#pragma once
// FLOP of training, without recomputation.

#include "simulator/base/units.h"
#include "simulator/mapping/parallel_mapping.h"

namespace foretrace {

// Of one sample where all weights are trained: three times the forward GEMMs, attention among them.
// Every query counts all keys of its sequence, or of its window, also those that a causal mask
// leaves out (PaLM, appendix B), so that over long sequences, where kernels leave them out too, the
// utilisation of this is up to twice that of the units.
Flop ModelFlopOf(const TransformerConfig& model);

// Of one sample under a mapping: the forward GEMMs, gradients of inputs down to the lowest layer
// that is trained, those of all of attention's, and gradients of the weights that are. Adapters'
// own forward GEMMs are left out, and what experts' capacity drops.
Flop TrainedFlopOf(const TransformerConfig& model, const ParallelMapping& mapping);

}  // namespace foretrace
