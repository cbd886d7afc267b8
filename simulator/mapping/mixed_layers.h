#pragma once
// Models whose layers are of two kinds, dense ones and mixtures of experts.

#include <memory>
#include <vector>

#include "simulator/mapping/iteration_model.h"
#include "simulator/mapping/memory_model.h"

namespace foretrace {

// What the model's layer `layer` takes.
const PassTimes& TimesOf(const TransformerConfig& model, int64_t layer, const PassTimes& passes);
// Of a pass over `count` layers from `first` on, backward from the last one.
std::vector<LayerPass> LayersOfPass(const TransformerConfig& model, int64_t first, int64_t count,
                                    bool forward, const PassTimes& passes);

// Gives `mixture`, as if all layers were mixtures, the dense layers' times, as if all were dense.
// What ends an iteration becomes that of the stage where it takes longest.
void AddDenseLayers(const TransformerConfig& model, const ParallelMapping& mapping,
                    std::shared_ptr<const PassTimes> dense, PassTimes& mixture);

// `share` of a stage's layers keep what `dense` says, the others what `mixture` says.
MemoryLedger Mean(const MemoryLedger& dense, const MemoryLedger& mixture, double share);

}  // namespace foretrace
