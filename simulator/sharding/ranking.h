#pragma once
// Runs sharders on a task and ranks their plans by simulated iteration time.

#include <span>
#include <string>
#include <vector>

#include "simulator/sharding/sharder.h"

namespace foretrace {

struct RankedPlan {
  ShardingPlan plan;
  PlanEvaluation evaluation;
  MemoryVerdict memory;
};

struct Ranking {
  std::vector<RankedPlan> plans;     // those that fit first; then by time; ties in order of asking
  std::vector<std::string> skipped;  // "ilp: why"
  int64_t evaluated = 0;             // simulated plans
};

// `given` are plans to rank beside the sharders'. Errors: a plan that does not belong to the task,
// no plan at all.
absl::StatusOr<Ranking> RankPlans(const ShardingTask& task, SimulatedEvaluator& evaluator,
                                  std::span<const std::unique_ptr<Sharder>> sharders,
                                  std::vector<ShardingPlan> given, uint64_t seed, int64_t budget);

// Infeasible when no plan fits: what the nearest needs, and what there is.
absl::Status CheckFits(const ShardingTask& task, const Ranking& ranking);

}  // namespace foretrace
