#pragma once
// Shardings for machines that overlap computation, memory and network: a pass takes no less than
// any mean of the three, and shardings of the least mean, under weights that move to what is
// longest, balance them.

#include <limits>
#include <vector>

#include "simulator/dataflow/pass_terms.h"
#include "simulator/dataflow/sharding_problem.h"

namespace foretrace::dataflow {

struct BalancedShardings {
  // That fit into memory, those whose passes would take the least in one partition each first.
  std::vector<Shardings> found;
  RealNs bound;  // no iteration takes less, whatever its shardings
};

// `system` with the roles of `mapping`, whose iterations are physical and whose passes share no
// partition; of the choices in `mask`. Ends where the bound reaches `below`, beyond which
// iterations are of no use.
BalancedShardings SolveBalanced(const ShardingProblem& problem, const System& system,
                                const Formulas& formulas, const Mapping& mapping,
                                const ShardingProblem::Mask& mask, RealNs below);

}  // namespace foretrace::dataflow
