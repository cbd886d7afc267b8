#pragma once
// What layers keep of activations where that is not all that their backward pass reads, as the
// model has it: in fewer bits (ParallelMapping::keeps_eight), or lightly recomputed
// (Recompute::kLight).

#include "simulator/mapping/mapped_layer.h"

namespace foretrace {

// Of one layer and micro-batch, in bytes. `recompute`: kNone, kSelective or kLight.
double KeptBytes(const MappedLayer& layer, const ParallelMapping& mapping, Recompute recompute);

// What light recomputation makes again of a layer, in bytes, as the model has it.
double MadeAgainBytes(const MappedLayer& layer, const ParallelMapping& mapping);

// In which share of its own bytes a tensor of the block is kept.
double KeptShare(const OperatorGraph& graph, TensorId tensor, const ParallelMapping& mapping);

// RunLightAgain of what the mapping trains.
LightRecomputation LightOf(const OperatorGraph& graph, const ParallelMapping& mapping);

}  // namespace foretrace
