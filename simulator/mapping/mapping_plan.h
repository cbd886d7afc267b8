#pragma once
// A mapping as what each of its devices runs.

#include "absl/status/statusor.h"
#include "simulator/mapping/iteration_model.h"
#include "simulator/plan/job_plan.h"

namespace foretrace {

// Rank ((stage * data + replica) * context + part) * tensor + shard. Per layer kernels, and the
// layer's exchanges in their order; reductions of gradients, then the optimizer. Lowered and
// replayed with the plan's durations it takes exactly as long as the folded EstimateIteration.
// Errors: as CheckMapping; infeasible: its passes are more than kMaxLoweredNodes.
absl::StatusOr<JobPlan> PlanOf(const TransformerConfig& model, const ParallelMapping& mapping,
                               const PassTimes& passes);

}  // namespace foretrace
