#pragma once
// Shardings of the least time among those that fit into a chip's memory.

#include <vector>

#include "simulator/dataflow/sharding_problem.h"

namespace foretrace::dataflow {

struct LimitedShardings {
  std::vector<Shardings>
      found;             // all fit, the fastest first; none: nothing fits, or is below cutoff
  int64_t bound_ps = 0;  // nothing that fits takes less
  bool exact = false;    // the first one is the fastest, where there is one
};

// Both objectives are sums over kernels and tensors, of `bytes` at most `most`; solutions from
// `cutoff_ps` on are of no use. Branch and bound over kernels' shardings with bounds by Lagrange's
// multiplier, up to `nodes` of them.
LimitedShardings SolveWithin(const ShardingProblem& problem, const ShardingObjective& time,
                             const ShardingObjective& bytes, int64_t most, int64_t cutoff_ps,
                             int nodes);

}  // namespace foretrace::dataflow
