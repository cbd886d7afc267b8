#pragma once
// Partitions by an integer program (DFModel section V), for graphs whose lattice of downsets is too
// large to be searched.

#include "absl/status/statusor.h"
#include "simulator/dataflow/partition.h"

namespace foretrace::dataflow {

// From `start`, whatever is found within so many nodes of branch and bound, `start` at worst;
// Partitioning::bound is proven. Time of computation is by utilisation (cycles bound it from
// below). Errors: the solver cannot be loaded.
absl::StatusOr<Partitioning> SolvePartitionProgram(const Workload& workload,
                                                   const PartitionCosts& costs,
                                                   const PartitionLimits& limits,
                                                   const Partitioning& start, int nodes);

}  // namespace foretrace::dataflow
