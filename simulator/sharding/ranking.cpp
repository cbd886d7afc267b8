#include "simulator/sharding/ranking.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"

namespace foretrace {

namespace {

using Sharders = std::span<const std::unique_ptr<Sharder>>;

// Runs every sharder; the results are in their order, whoever ran them.
class SharderRuns {
 public:
  SharderRuns(const ShardingTask& task, Sharders sharders, uint64_t seed, int64_t budget,
              const RankControl& control)
      : task_(task),
        sharders_(sharders),
        seed_(seed),
        budget_(budget),
        control_(control),
        plans_(sharders.size(), absl::UnknownError("not run")) {}

  void OnThisThread(SimulatedEvaluator& evaluator) {
    ModelledCost costs(task_, evaluator);
    for (size_t i = next_++; i < sharders_.size(); i = next_++) {
      const ShardingProblem problem{task_,
                                    evaluator.dense(),
                                    costs,
                                    evaluator,
                                    evaluator.ranks_per_node(),
                                    seed_,
                                    budget_,
                                    [&](int64_t done) {
                                      if (control_.progress)
                                        control_.progress(sharders_[i]->name(), done, budget_);
                                    },
                                    control_.stop};
      // The first sharders take no time; one plan there must be.
      if (i > 0 && control_.stop.stop_requested()) {
        plans_[i] = Infeasible("{}: interrupted", sharders_[i]->name());
        continue;
      }
      plans_[i] = sharders_[i]->Shard(problem);
    }
  }

  absl::Status OnThreads(size_t jobs) {
    std::vector<std::unique_ptr<SimulatedEvaluator>> evaluators;
    for (size_t j = 0; j < jobs; ++j) {
      FORETRACE_ASSIGN_OR_RETURN(auto evaluator, control_.make_evaluator());
      evaluators.push_back(std::move(evaluator));
    }
    std::vector<std::thread> threads;
    for (const auto& evaluator : evaluators) {
      threads.emplace_back([this, &evaluator] { OnThisThread(*evaluator); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& evaluator : evaluators) evaluated_ += evaluator->evaluated();
    return absl::OkStatus();
  }

  std::vector<absl::StatusOr<ShardingPlan>>& plans() { return plans_; }
  int64_t evaluated() const { return evaluated_; }

 private:
  const ShardingTask& task_;
  Sharders sharders_;
  uint64_t seed_;
  int64_t budget_;
  const RankControl& control_;
  std::atomic<size_t> next_ = 0;
  std::vector<absl::StatusOr<ShardingPlan>> plans_;
  int64_t evaluated_ = 0;
};

}  // namespace

absl::StatusOr<Ranking> RankPlans(const ShardingTask& task, SimulatedEvaluator& evaluator,
                                  std::span<const std::unique_ptr<Sharder>> sharders,
                                  std::vector<ShardingPlan> given, uint64_t seed, int64_t budget,
                                  const RankControl& control) {
  Ranking ranking;
  std::vector<ShardingPlan> plans = std::move(given);
  SharderRuns runs(task, sharders, seed, budget, control);
  const size_t jobs = std::min(static_cast<size_t>(std::max(control.jobs, 1)), sharders.size());
  if (jobs > 1 && control.make_evaluator) {
    FORETRACE_RETURN_IF_ERROR(runs.OnThreads(jobs));
  } else {
    runs.OnThisThread(evaluator);
  }
  for (size_t i = 0; i < sharders.size(); ++i) {
    absl::StatusOr<ShardingPlan>& plan = runs.plans()[i];
    if (absl::IsFailedPrecondition(plan.status()) || absl::IsUnavailable(plan.status())) {
      ranking.skipped.emplace_back(plan.status().message());
      continue;
    }
    FORETRACE_RETURN_IF_ERROR(plan.status());
    plan->sharder = std::string(sharders[i]->name());
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
  ranking.evaluated = evaluator.evaluated() + runs.evaluated();
  return ranking;
}

absl::Status CheckFits(const ShardingTask& task, const Ranking& ranking) {
  if (ranking.plans.front().memory.fits) return absl::OkStatus();
  const auto nearest = std::min_element(
      ranking.plans.begin(), ranking.plans.end(),
      [](const RankedPlan& a, const RankedPlan& b) { return a.memory.largest < b.memory.largest; });
  const MemoryVerdict& memory = nearest->memory;
  if (memory.largest <= task.memory) {
    return Infeasible(
        "{}: does not fit: needs {} of host memory for a GPU, has {}; the nearest plan is "
        "{}'s",
        task.file, FormatGB(memory.largest_host), FormatGB(task.uvm.host_memory),
        nearest->plan.sharder);
  }
  const RankMemory& rank = *std::max_element(
      memory.ranks.begin(), memory.ranks.end(),
      [](const RankMemory& a, const RankMemory& b) { return a.total() < b.total(); });
  return Infeasible(
      "{}: does not fit: needs {} on the fullest GPU, has {}; the nearest plan is {}'s (tables {}, "
      "their "
      "optimizer {}, activations and buffers {}, dense part {}); more GPUs, {} or a smaller batch "
      "would "
      "help",
      task.file, FormatGB(memory.largest), FormatGB(task.memory), nearest->plan.sharder,
      FormatGB(rank.weights + rank.gradients), FormatGB(rank.optimizer),
      FormatGB(rank.activations + rank.buffers), FormatGB(rank.dense),
      task.uvm.allowed ? "a smaller uvm.cache_ratio" : "tables in host memory (uvm)");
}

}  // namespace foretrace
