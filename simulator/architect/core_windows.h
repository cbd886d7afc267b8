#pragma once
// Lower bounds on a layer's schedule from what is ready late and waited for early.

#include <cstdint>
#include <vector>

#include "simulator/architect/core_graph.h"

namespace foretrace {

// Operators on cores of one kind that all have something before and behind them: the cores that
// work them off wait for the one, and are waited for by the other.
struct CoreWindow {
  CoreClass core = CoreClass::kTensor;  // or kVector
  std::vector<bool> in;                 // by operator
  // Between two of them on a path, so that they cannot be what runs before or behind.
  std::vector<bool> between;
  SimTime around;  // least time before the first of them and after the last
};

// Those that bound best while no operator runs on all cores: at most `most` of each kind, in that
// order. `order` is topological, `reaches` its Reachable.
std::vector<CoreWindow> CoreWindows(const CoreGraph& graph, const std::vector<int32_t>& order,
                                    const std::vector<std::vector<bool>>& reaches,
                                    const CoreCounts& cores, size_t most);

}  // namespace foretrace
