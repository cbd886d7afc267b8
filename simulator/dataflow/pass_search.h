#pragma once
// Shardings and partitions of one pass together: what the other pass makes and reads is in whatever
// layout suits, so that the sum over passes is a bound, and the mapping where they agree.

#include <cstdint>
#include <vector>

#include "simulator/dataflow/pass_terms.h"
#include "simulator/dataflow/sharding_problem.h"

namespace foretrace::dataflow {

// Of a micro-batch through a layer, as often as an iteration runs the pass, with what an iteration
// adds for its kernels.
struct PassFound {
  RealNs bound;                // no mapping's pass takes less
  std::vector<size_t> chosen;  // by kernel, of the pass: the one that takes this; empty: not found
};

struct PassLimits {
  RealNs below;        // passes that take as long are of no use
  int64_t labels = 0;  // partial passes that the search may look at
};

// Exact, unless there are more labels; of the choices in `mask`, also for what the other pass
// reads. `system` has the roles of `mapping`; partitions of different passes are apart, tiles by
// utilisation or not counted.
PassFound SolvePass(const ShardingProblem& problem, const System& system, const Formulas& formulas,
                    const Mapping& mapping, const ShardingProblem::Mask& mask, Direction pass,
                    const PassLimits& limits);

}  // namespace foretrace::dataflow
