#pragma once
// A mapping as what every chip computes, reads and sends, in which order, for the event engine to
// run. Where nothing contends it takes what the closed forms say.

#include "absl/status/statusor.h"
#include "simulator/dataflow/mapping.h"
#include "simulator/plan/job_plan.h"

namespace foretrace::dataflow {

// Rank: the chip's place in the system's dimensions, the first running fastest. Partitions follow
// each other on a compute stream, their exchanges on another: beside it where the machine overlaps
// them, else after it. Stages run one forward and one backward micro-batch in turn (1F1B).
// Gradients are reduced and the optimizer runs at the end. Errors: infeasible: more than
// kMaxLoweredNodes.
absl::StatusOr<JobPlan> PlanOf(const Workload& workload, const System& system,
                               const MappedWorkload& mapped);

}  // namespace foretrace::dataflow
