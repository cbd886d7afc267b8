#pragma once
// A placement of search/phaze.h on the event engine, beside its closed form.

#include "absl/status/statusor.h"
#include "simulator/plan/job_plan.h"
#include "simulator/search/phaze.h"

namespace foretrace {

// One replica, a rank for each stage: micro-batches in the 1F1B order, each pass as long as the
// stage's layers (with the repeated forward pass where the plan recomputes, but in the last
// stage), inputs and gradients sent over links beside other work, gradients reduced at the end as
// long as the problem's own formula has for the stage. Stages of several devices work alike.
// Errors: infeasible: its passes are more than kMaxLoweredNodes.
absl::StatusOr<JobPlan> PlanOf(const PhazeProblem& problem, const PhazePlan& placement);

// What the lowered iteration takes, executed.
absl::StatusOr<SimTime> SimulatePlacement(const PhazeProblem& problem, const PhazePlan& placement);

}  // namespace foretrace
