#pragma once
// Schedules of a layer's operators on the cores of one accelerator, of least makespan.

#include "simulator/architect/core_graph.h"

namespace foretrace {

struct ScheduleLimits {
  // States that the search may expand for a part of a layer, never time: a result does not depend
  // on the machine's load. The integer program gets a tenth as many nodes, fewer from 20 operators.
  int64_t max_nodes = 2000;
};

// The optimum, or within the limits the best found, with a bound. Operators that are comparable
// with all others cut the graph into parts that are scheduled one by one: by list scheduling, whose
// schedule is optimal where it meets the bounds of critical path and load (core_bounds.h); else by
// a search of few states (core_search.h), which is quick where an optimum is near; else by the
// paper's integer program, from the best schedule so far (core_milp.h). Errors: those of
// CheckedOrder; no cores; more than 64 operators between two cuts; the solver cannot be loaded.
absl::StatusOr<CoreSchedule> ScheduleCores(const CoreGraph& graph, const CoreCounts& cores,
                                           const ScheduleLimits& limits = {});

// No schedule is shorter (core_bounds.h).
SimTime MakespanBound(const CoreGraph& graph, const std::vector<int32_t>& order,
                      const CoreCounts& cores);

// Places the operators in `sequence`, a topological order, each as early as its inputs, its core
// and operators that run alone allow: on the core of `on_core`, or where that is empty on the one
// that is free first.
CoreSchedule PlaceInOrder(const CoreGraph& graph, const std::vector<int32_t>& sequence,
                          const CoreCounts& cores, const std::vector<bool>& on_all,
                          const std::vector<int32_t>& on_core = {});

// Operators one after another by longest remaining path, each on all cores where that is faster.
CoreSchedule ListSchedule(const CoreGraph& graph, const std::vector<int32_t>& order,
                          const CoreCounts& cores);

}  // namespace foretrace
