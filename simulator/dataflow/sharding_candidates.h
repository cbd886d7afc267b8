#pragma once
// Which shardings are worth partitioning for one use of a system's dimensions, and what no sharding
// goes below.

#include <optional>
#include <vector>

#include "simulator/dataflow/mapping.h"

namespace foretrace::dataflow {

struct ShardingCandidates {
  std::vector<Shardings> shardings;
  // Of a sample through a layer, forward and backward once: no sharding takes less. Nullopt: there
  // are no others.
  std::optional<double> sample_bound_ns;
  // Time is a sum over kernels and tensors, of which the first has the least; the bound is not
  // needed.
  bool least = false;
};

// `system` with the roles of `mapping`, whose shardings and partitions are not looked at; `alone`:
// each kernel is a partition. Where then nothing overlaps, time adds up over kernels and tensors,
// and the sharding of the least is among them; so is the least of those that leave no weight whole
// on every chip, which needs less memory. Elsewhere those of least communication, least computation
// and the least sum of both, each of which bounds the time from below; where there are few
// shardings, all of them. Megatron's are always there.
ShardingCandidates SolveCandidates(const Workload& workload, const System& system,
                                   const Formulas& formulas, const Mapping& mapping, bool alone);

// Whether candidates are the same for every micro-batch, number of tiles and recomputation.
bool SameForEveryMicroBatch(const System& system, const Formulas& formulas);

// Megatron's tensor parallelism: along heads and the inner size of the FFN.
Shardings MegatronShardings(const Workload& workload);
// Beside it elementwise kernels along the sequence, and partial results scattered along it
// (sequence parallelism).
Shardings SequenceParallelShardings(const Workload& workload, int64_t chips);

}  // namespace foretrace::dataflow
