#pragma once
// What layers keep of activations where that is not all that their backward pass reads, as the
// model has it: in fewer bits (ParallelMapping::keeps_eight), or recomputed in parts
// (recomputed_modules.h).

#include "simulator/mapping/mapped_layer.h"

namespace foretrace {

// Of one layer and micro-batch, in bytes. `recompute`: kNone, kSelective, kLight or
// kModules, of the mapping's modules.
double KeptBytes(const MappedLayer& layer, const ParallelMapping& mapping, Recompute recompute);

// What is there again at once of what recomputation in parts drops of a layer, in bytes, as the
// model has it: of light recomputation all of it; of modules the most of attention or of the
// feed-forward layer, whose backward pass is over before that of attention begins.
double MadeAgainBytes(const MappedLayer& layer, const ParallelMapping& mapping);

// In which share of its own bytes a tensor of the block is kept.
double KeptShare(const OperatorGraph& graph, TensorId tensor, const ParallelMapping& mapping);

// What a layer's operators keep one by one beyond what the graph's, which are fused, do, in bytes:
// `eager`: what the function of a gated activation gave, for the product's gradient; `repeats`:
// copies of keys and values, in place of them.
double KeptSingly(const MappedLayer& layer, bool eager, bool repeats);

}  // namespace foretrace
