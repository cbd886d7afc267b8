#pragma once
// What passes of a workload do not go below, by sums over kernels and tensors.

#include "simulator/dataflow/pass_terms.h"
#include "simulator/dataflow/sharding_problem.h"

namespace foretrace::dataflow {

// Choices of kernels that may be part of iterations whose passes take less than `below`
// together: by themselves, with the least of all other kernels.
ShardingProblem::Mask Promising(const ShardingProblem& problem, const System& system,
                                const Formulas& formulas, const Mapping& mapping, RealNs below);

// A pass as often as an iteration runs it, with what an iteration adds for its kernels.
RealNs LeastPassTime(const ShardingProblem& problem, const System& system, const Formulas& formulas,
                     const Mapping& mapping, Direction pass);

}  // namespace foretrace::dataflow
