#pragma once
// Models whose layers are of two kinds, dense ones and mixtures of experts; layers of which only
// some are recomputed.

#include <memory>
#include <vector>

#include "simulator/mapping/iteration_model.h"
#include "simulator/mapping/memory_model.h"

namespace foretrace {

// What layer `index` of a chunk takes.
const PassTimes& TimesOf(const TransformerConfig& model, const ParallelMapping& mapping,
                         int32_t stage, int32_t chunk, int64_t index, const PassTimes& passes);

// Gives `again`, as if all layers were recomputed whole, the times of those that keep everything
// (RunsAgain), and of what is outside of layers theirs.
void AddKeptLayers(const TransformerConfig& model, const ParallelMapping& mapping,
                   std::shared_ptr<const PassTimes> kept, PassTimes& again);

// Gives `mixture`, as if all layers were mixtures, the dense layers' times, as if all were dense.
// What ends an iteration becomes that of the stage where it takes longest.
void AddDenseLayers(const TransformerConfig& model, const ParallelMapping& mapping,
                    std::shared_ptr<const PassTimes> dense, PassTimes& mixture);

// `share` of a stage's layers keep what `dense` says, the others what `mixture` says.
MemoryLedger Mean(const MemoryLedger& dense, const MemoryLedger& mixture, double share);

}  // namespace foretrace
