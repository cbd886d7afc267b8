#pragma once
// Runs sharders on a task and ranks their plans by simulated iteration time.

#include <functional>
#include <memory>
#include <span>
#include <stop_token>
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

struct RankControl {
  // Sharders at work at once, each with an evaluator of its own from `make_evaluator`; the plans
  // and their times do not depend on it.
  int jobs = 1;
  std::function<absl::StatusOr<std::unique_ptr<SimulatedEvaluator>>()> make_evaluator;
  // Told, from any thread, which sharder has simulated how many plans of its budget.
  std::function<void(std::string_view sharder, int64_t done, int64_t budget)> progress;
  std::stop_token stop;  // searches end with their best so far, sharders that wait are skipped
};

// `given` are plans to rank beside the sharders'. Errors: a plan that does not belong to the task,
// no plan at all.
absl::StatusOr<Ranking> RankPlans(const ShardingTask& task, SimulatedEvaluator& evaluator,
                                  std::span<const std::unique_ptr<Sharder>> sharders,
                                  std::vector<ShardingPlan> given, uint64_t seed, int64_t budget,
                                  const RankControl& control = {});

// Infeasible when no plan fits: what the nearest needs, and what there is.
absl::Status CheckFits(const ShardingTask& task, const Ranking& ranking);

}  // namespace foretrace
