#pragma once
// What layers, and the chunks and stages that they make, keep of a micro-batch until its backward
// pass.

#include <cstdint>

#include "simulator/mapping/parallel_mapping.h"

namespace foretrace {

class MappedLayer;
class ModelLayers;

// What a chunk of a stage keeps of one micro-batch for its layers, in bytes: under DualPipe, whose
// chunks differ, of that one, else the mean of the stage's.
double ChunkStash(const ModelLayers& model, const ParallelMapping& mapping, int32_t stage,
                  int32_t chunk);

// What one layer keeps of one micro-batch under `recompute`, in bytes, the input that it shares
// with others (ParallelMapping::recomputed_together) whole. Layers are of one kind.
double LayerStash(const TransformerConfig& model, const ParallelMapping& mapping,
                  Recompute recompute);
// The same of a layer that is at hand.
double StashOf(const MappedLayer& layer, const ParallelMapping& mapping, Recompute recompute,
               const TransformerConfig& model);

// What the two stages of a DualPipe device keep at once of micro-batches that go either way, at
// most, in bytes.
double DualStash(const ModelLayers& model, const ParallelMapping& mapping, int32_t stage);

}  // namespace foretrace
