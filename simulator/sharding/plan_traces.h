#pragma once
// The simulated iteration of a plan as traces, one per rank.

#include <string>

#include "absl/status/statusor.h"
#include "simulator/sharding/job.h"

namespace foretrace {

// Traces without times: nodes with durations and the dependencies that order them. What the program
// has between items (latency of a launch, gap of a stream, overhead of the CPU) becomes nodes too,
// so that replaying the traces gives the program's makespan to the bit. `job` is of all ranks, with
// the durations of `work` set; `plan` names the plan.
absl::StatusOr<TraceStore> PlanTraces(const ShardingTask& task, const ShardedJob& job,
                                      const PlanWork& work, const std::string& plan);

}  // namespace foretrace
