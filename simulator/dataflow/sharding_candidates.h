#pragma once
// Which shardings are worth partitioning for one use of a system's dimensions, and what no sharding
// goes below.

#include <array>
#include <optional>
#include <vector>

#include "simulator/dataflow/mapping.h"
#include "simulator/dataflow/sharding_problem.h"

namespace foretrace::dataflow {

struct ShardingCandidates {
  std::vector<Shardings> shardings;
  // Of a sample through a layer, forward and backward once: no sharding takes less. Nullopt: there
  // are no others.
  std::optional<RealNs> sample_bound;
  // Time is a sum over kernels and tensors, of which the first has the least; the bound is not
  // needed.
  bool least = false;
  // Where that does not fit into memory: the least that does is above it by this much at least, in
  // the time of an iteration; and which one that is, where it is known.
  RealNs excess;
  std::optional<size_t> fitting;
};

// `system` with the roles of `mapping`, whose shardings and partitions are not looked at; `alone`:
// each kernel is a partition. Where then nothing overlaps, time adds up over kernels and tensors,
// and the sharding of the least is the first of them; where it does not fit into memory, the least
// that does comes after it. Elsewhere those of least communication, least computation
// and the least sum of both, each of which bounds the time from below; where there are few
// shardings, all of them. Megatron's are always there.
struct CandidateSearch {
  bool alone = false;
  size_t every = 0;                   // where there are no more shardings than that, all of them
  int nodes = 0;                      // of the search for the least that fits into memory
  RealNs below = RealNs::Infinite();  // of an iteration: others are no use
};
ShardingCandidates SolveCandidates(const ShardingProblem& problem, const System& system,
                                   const Formulas& formulas, const Mapping& mapping,
                                   const CandidateSearch& search);

// The shardings of the least sum over partitions of weights times computation, memory and network,
// with the partitions of `mapping`.
Shardings SolveForPartitions(const ShardingProblem& problem, const System& system,
                             const Formulas& formulas, const Mapping& mapping,
                             const std::vector<std::array<double, 3>>& weights);

// By kernel, its shares in all shardings that candidates may have.
KernelShares SharesOf(const Workload& workload, const TensorGroup& group);

// Whether candidates are the same for every micro-batch, number of tiles and recomputation.
bool SameForEveryMicroBatch(const System& system, const Formulas& formulas);

// Megatron's tensor parallelism: along heads and the inner size of the FFN.
Shardings MegatronShardings(const Workload& workload);
// Beside it elementwise kernels along the sequence, and partial results scattered along it
// (sequence parallelism).
Shardings SequenceParallelShardings(const Workload& workload, int64_t chips);

}  // namespace foretrace::dataflow
