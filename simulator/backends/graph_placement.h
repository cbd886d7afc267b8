#pragma once
// Graph-level placement (Collage, section 2.4.3): which kernels of an op-level placement are given
// to a graph-level backend instead, so that neighbours run in one call of it.

#include <span>
#include <stop_token>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/backends/call_placement.h"
#include "simulator/backends/op_placement.h"
#include "simulator/optimise/evolution.h"

namespace foretrace {

inline constexpr int32_t kMaxGraphLevelOps = 4096;

struct GraphPlacement {
  OpPlacement evolved;  // the published search, from `op_level` on
  EvolutionResult evolution;
  int32_t groups = 0;  // kernels that evolution may give to the engine
  // Kernels that it may not, because the engine has no kernels for them.
  int32_t fixed_groups = 0;
  OpPlacement exact;    // PlaceWithCalls; evolution's where that found none as cheap
  bool proven = false;  // no placement is cheaper than `exact`
  SimTime bound;        // no placement is cheaper

  const OpPlacement& best() const { return exact.cost < evolved.cost ? exact : evolved; }
};

// A bit for each kernel of `op_level` that is not the engine's: 0 keeps it, 1 gives its operators
// to the engine. Operators of the engine that neighbour each other run in one call, as far as no
// call then waits for itself, on the engine's cheapest kernels for them. Errors: more operators
// than kMaxGraphLevelOps; those of PlaceOps.
absl::StatusOr<GraphPlacement> PlaceGraph(const OperatorView& dag,
                                          std::span<const KernelChoice> choices, SimTime launch,
                                          const OpPlacement& op_level, const EngineCall& engine,
                                          const EvolutionSettings& settings,
                                          const std::stop_token& stop = {});

// Sets of neighbouring operators among `ops` (ascending): as large as neighbours make them without
// a path from one back to itself by way of others. In order of their first operators.
std::vector<std::vector<int32_t>> NeighbouringOps(const OperatorView& dag,
                                                  const std::vector<int32_t>& ops);

}  // namespace foretrace
