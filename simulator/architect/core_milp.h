#pragma once
// The integer program of Wang et al. (ICML 2024), section 4, equations 1 to 16, on the MILP solver.
//
// Time is counted without the operators that run on all cores: since nothing else runs beside one,
// it takes no time of that count and may begin where no other operator is under way; the makespan
// is the length of the count and what they take. With that, the makespan is at least any path and
// any load in one row each (the bounds of list scheduling, for every choice of modes), and (8)
// needs no more than the two starts.
//
// Orderings are added lazily. The program begins with the dependencies (7), lengths (1, 2) and
// loads of each kind of core alone. What its solution runs at once although it may not gets
// variables x with (3), (8) and (9): pairs around an operator on all cores; operators of one kind
// above its cores, with a row that asks for as many ordered pairs as chains on these cores have.
// Transitivity (4) follows from the times, (5) and (6) are constants. Assignments to cores z
// (10 to 16) come in, as in appendix A, only where operators that need a pair of cores find none.

#include "simulator/architect/core_schedule.h"

namespace foretrace {

// From `start`, the best schedule known and a bound; proven within kMilpTolerance where its bound
// is its makespan. `graph` is checked, in the topological order `order`. Errors: the solver cannot
// be loaded.
absl::StatusOr<CoreSchedule> ImproveByMilp(const CoreGraph& graph,
                                           const std::vector<int32_t>& order,
                                           const CoreCounts& cores, CoreSchedule start,
                                           const ScheduleLimits& limits);

}  // namespace foretrace
