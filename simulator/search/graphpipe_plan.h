#pragma once
// From what the dynamic program found to a plan with costs.

#include "absl/status/status.h"
#include "simulator/search/graphpipe_solver.h"

namespace foretrace::internal {

// The stages of a record of the whole graph, in an order in which every dependency goes forward;
// without costs.
GraphPipePlan ReadPlan(const GraphPipeSolver& solver, const GraphPipeModel& model,
                       const OpGraph& graph, int32_t record);

// Edges between stages, in-flight counts from the last stage back, costs from the true borders.
void CompletePlan(const GraphPipeProblem& problem, GraphPipePlan& plan);
// Conditions C1, C2 and C5 of given stages.
absl::Status CheckStages(const GraphPipeProblem& problem,
                         const std::vector<GraphPipeStage>& stages);
// Of a completed plan: infeasible where a stage does not fit, with what would.
absl::Status CheckMemory(const GraphPipeProblem& problem, const GraphPipePlan& plan);
// The plan's iteration time.
absl::Status SimulatePlan(const GraphPipeProblem& problem, GraphPipePlan& plan);

absl::Status CheckProblem(const GraphPipeProblem& problem);
absl::StatusOr<OpGraph> GraphOf(const GraphPipeProblem& problem);

}  // namespace foretrace::internal
