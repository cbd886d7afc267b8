#pragma once
// Models whose layers are of several kinds (workload/layer_pattern.h); layers of which only some
// are recomputed.

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

// Adds to the passes of the output layer those of `layers` of the modules that predict further
// tokens, each of which takes what one of `of` does.
void AddFurtherLayers(int64_t layers, const PassTimes& of, PassTimes& times);

// Gives `main`, as if all layers were of the first kind, the times of the others, each as if all
// were of that one. What ends an iteration becomes that of the stage where it takes longest.
void AddOtherKinds(const TransformerConfig& model, const ParallelMapping& mapping,
                   std::vector<std::shared_ptr<const PassTimes>> others, PassTimes& main);

// What is of a share of a stage's layers, as if all were like them.
struct LedgerShare {
  MemoryLedger use;
  double share = 0;
};
// The stage's.
MemoryLedger Mean(const std::vector<LedgerShare>& kinds);

}  // namespace foretrace
