#include "simulator/sharding/ranking.h"

#include <algorithm>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"

namespace foretrace {

absl::StatusOr<Ranking> RankPlans(const ShardingTask& task, SimulatedEvaluator& evaluator,
                                  std::span<const std::unique_ptr<Sharder>> sharders,
                                  std::vector<ShardingPlan> given, uint64_t seed,
                                  int64_t budget) {
  Ranking ranking;
  ModelledCost costs(task, evaluator);
  const ShardingProblem problem{task, evaluator.dense(), costs, evaluator,
                                evaluator.ranks_per_node(), seed, budget};
  std::vector<ShardingPlan> plans = std::move(given);
  for (const auto& sharder : sharders) {
    absl::StatusOr<ShardingPlan> plan = sharder->Shard(problem);
    if (absl::IsFailedPrecondition(plan.status())) {
      ranking.skipped.emplace_back(plan.status().message());
      continue;
    }
    FORETRACE_RETURN_IF_ERROR(plan.status());
    plan->sharder = std::string(sharder->name());
    plans.push_back(*std::move(plan));
  }
  for (ShardingPlan& plan : plans) {
    FORETRACE_RETURN_IF_ERROR(CheckPlan(task, plan, evaluator.ranks_per_node()));
    FORETRACE_ASSIGN_OR_RETURN(PlanEvaluation evaluation, evaluator.Evaluate(plan));
    MemoryVerdict memory = MemoryOf(task, evaluator.dense(), plan);
    ranking.plans.push_back({std::move(plan), std::move(evaluation), std::move(memory)});
  }
  if (ranking.plans.empty()) {
    return Infeasible("{}: no sharder can work on the task: {}", task.file,
                      ranking.skipped.empty() ? "none was asked for" : ranking.skipped.front());
  }
  std::stable_sort(ranking.plans.begin(), ranking.plans.end(),
                   [](const RankedPlan& a, const RankedPlan& b) {
                     if (a.memory.fits != b.memory.fits) return a.memory.fits;
                     return a.evaluation.iteration < b.evaluation.iteration;
                   });
  ranking.evaluated = evaluator.evaluated();
  return ranking;
}

absl::Status CheckFits(const ShardingTask& task, const Ranking& ranking) {
  if (ranking.plans.front().memory.fits) return absl::OkStatus();
  const auto nearest = std::min_element(
      ranking.plans.begin(), ranking.plans.end(), [](const RankedPlan& a, const RankedPlan& b) {
        return a.memory.largest < b.memory.largest;
      });
  const MemoryVerdict& memory = nearest->memory;
  if (memory.largest <= task.memory) {
    return Infeasible("{}: does not fit: needs {} of host memory for a GPU, has {}; the nearest plan is "
                      "{}'s", task.file, FormatGB(memory.largest_host),
                      FormatGB(task.uvm.host_memory), nearest->plan.sharder);
  }
  const RankMemory& rank = *std::max_element(
      memory.ranks.begin(), memory.ranks.end(),
      [](const RankMemory& a, const RankMemory& b) { return a.total() < b.total(); });
  return Infeasible(
      "{}: does not fit: needs {} on the fullest GPU, has {}; the nearest plan is {}'s (tables {}, their "
      "optimizer {}, activations and buffers {}, dense part {}); more GPUs, {} or a smaller batch would "
      "help",
      task.file, FormatGB(memory.largest), FormatGB(task.memory), nearest->plan.sharder,
      FormatGB(rank.weights + rank.gradients), FormatGB(rank.optimizer),
      FormatGB(rank.activations + rank.buffers), FormatGB(rank.dense),
      task.uvm.allowed ? "a smaller uvm.cache_ratio" : "tables in host memory (uvm)");
}

}  // namespace foretrace
