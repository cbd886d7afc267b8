#pragma once
// FLOP of training where not all weights are trained.

#include "simulator/base/units.h"
#include "simulator/mapping/parallel_mapping.h"

namespace foretrace {

// Of one sample without recomputation: the forward GEMMs, gradients of inputs down to the lowest
// layer that is trained, and gradients of the weights that are. Adapters' own forward GEMMs are
// left out. Where all weights are trained, three times the forward GEMMs (ModelFlopOf).
Flop TrainedFlopOf(const TransformerConfig& model, const ParallelMapping& mapping);

}  // namespace foretrace
