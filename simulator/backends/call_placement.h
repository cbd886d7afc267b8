#pragma once
// Placement where kernels of a graph-level backend may also run several in one call.

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "simulator/backends/op_placement.h"

namespace foretrace {

struct CallPlacement {
  OpPlacement placement;  // no choices: none found that costs at most what was asked for
  bool proven = false;    // no placement is cheaper
  SimTime bound;          // none is cheaper than this
};

// Kernels that are tried after a set of operators done, in all.
inline constexpr int64_t kMaxFrontierSteps = 500'000;

// The cheapest placement where kernels run one by one, or those of the engine in calls. A call may
// have any of them (also ones that do not neighbour each other) as long as none waits for another
// kernel that waits for the call. Exact: whatever can run, runs in some order in which each call
// is a stretch, so that the dynamic program goes over the sets of operators that can be done at
// some time (the graph's frontiers), within and without a call. Where that would take more
// than `max_steps`, the most promising are kept, and `proven` is false unless the bounds of those
// left out exclude them. `cost_at_most` is of a placement that is known already: what cannot be
// cheaper is left out.
// Errors: operators that no choice covers; no placement at all.
absl::StatusOr<CallPlacement> PlaceWithCalls(const OperatorView& dag,
                                             std::span<const KernelChoice> choices, SimTime launch,
                                             const EngineCall& engine,
                                             SimTime cost_at_most = SimTime::Max(),
                                             int64_t max_steps = kMaxFrontierSteps);

// Lower bounds by operator on what it adds to any placement: those of a placement's operators sum
// up to no more than it costs, where a kernel costs `costs` of it (a dual solution of the covering
// program, by coordinate ascent). Max: the choice is not to be had.
std::vector<SimTime> OperatorBounds(int32_t operators, std::span<const KernelChoice> choices,
                                    std::span<const SimTime> costs);

}  // namespace foretrace
