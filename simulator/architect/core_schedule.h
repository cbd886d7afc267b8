#pragma once
// Schedules of a layer's operators on the cores of one accelerator, of least makespan.

#include "simulator/architect/core_graph.h"

namespace foretrace {

struct ScheduleLimits {
  // States that the search may expand, never time: a result does not depend on the machine's load.
  int64_t max_nodes = 100'000;
};

// Best-first branch and bound over states (operators done, operators running and for how much
// longer): exact, without time-indexed variables. It begins from list schedules, and its bounds
// weigh the critical path and the load of each kind of core (core_bounds.h); operators that are
// comparable with all others cut the graph into parts that are scheduled one by one. Where the
// limit ends it, the schedule is the best list schedule and `bound` says how far from the optimum
// it can be. Errors: those of CheckedOrder; no cores; more than 64 operators between two cuts.
absl::StatusOr<CoreSchedule> ScheduleCores(const CoreGraph& graph, const CoreCounts& cores,
                                           const ScheduleLimits& limits = {});

// The same by the paper's integer program (equations 1 to 16) on the MILP solver, from the list
// schedule on. Operators on one core are ordered (15, 16) when a solution overlaps them;
// transitivity (4) follows from the times. The solver does not say whether its limit ended it, so
// `bound` is that of MakespanBound. For comparison: ScheduleCores proves more in less time. Errors:
// also, the solver is not there; it found nothing.
absl::StatusOr<CoreSchedule> ScheduleByMilp(const CoreGraph& graph, const CoreCounts& cores,
                                            const ScheduleLimits& limits = {});

// No schedule is shorter (core_bounds.h).
SimTime MakespanBound(const CoreGraph& graph, const std::vector<int32_t>& order,
                      const CoreCounts& cores);

// Operators one after another by longest remaining path, each on all cores where that is faster.
CoreSchedule ListSchedule(const CoreGraph& graph, const std::vector<int32_t>& order,
                          const CoreCounts& cores);

}  // namespace foretrace
