#include "simulator/search/graph_searchers.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <utility>

#include "simulator/base/check.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/search/workload_problem.h"

namespace foretrace {
namespace {

// More micro-batches than this are not worth simulating: their passes are all overhead.
constexpr int32_t kMostMicroBatches = 4096;

std::vector<int32_t> MicroBatches(const GraphPipeProblem& problem) {
  if (!problem.micro_batches.empty()) return problem.micro_batches;
  std::vector<int32_t> sizes;
  for (int32_t b = 1; b <= problem.mini_batch; b *= 2) {
    if (problem.mini_batch / b <= kMostMicroBatches) sizes.push_back(b);
  }
  return sizes;
}

// The plan of the shortest simulated iteration over all sizes of micro-batch; the first reason where
// none fits.
class Best {
 public:
  void Offer(absl::StatusOr<GraphPipePlan> plan, double estimate_s, bool sequential) {
    if (!plan.ok()) return Fail(plan.status());
    if (found_ && found_->plan.iteration_s <= plan->iteration_s) return;
    found_ = GraphSearchResult{*std::move(plan), sequential, estimate_s};
  }
  void Fail(const absl::Status& status) {
    if (reason_.ok()) reason_ = status;
  }
  absl::StatusOr<GraphSearchResult> Take() {
    if (found_) return *std::move(found_);
    if (reason_.ok()) return Infeasible("no plan fits");
    return reason_;
  }

 private:
  std::optional<GraphSearchResult> found_;
  absl::Status reason_;
};

GraphPipeStage StageOf(std::vector<int32_t> ops, int32_t devices, int32_t micro_batch) {
  GraphPipeStage stage;
  std::sort(ops.begin(), ops.end());
  stage.ops = std::move(ops);
  stage.devices = devices;
  stage.config = {micro_batch, 1};
  return stage;
}

// PipeDream's partitions of the operators in a line, one for each size of micro-batch, judged as stages
// of `problem`.
Best PipeDreamPlans(const GraphPipeProblem& problem) {
  Best best;
  for (const int32_t b : MicroBatches(problem)) {
    PipeDreamProblem linear = PipeDreamProblemOf(problem, b);
    const auto order = linear.graph.topological_order();
    std::vector<std::pair<int32_t, int32_t>> chain;
    for (size_t i = 0; i + 1 < order.size(); ++i) chain.emplace_back(order[i], order[i + 1]);
    auto line = OpGraph::Create(static_cast<int32_t>(order.size()), chain);
    FORETRACE_CHECK(line.ok());
    linear.graph = *std::move(line);
    PipeDreamOptions options;
    options.levels = {{problem.devices, problem.bandwidth}};
    options.activation_compression_ratio = 1.0;
    const auto partition = PartitionPipeDream(linear, options);
    if (!partition.ok()) {
      best.Fail(partition.status());
      continue;
    }
    std::vector<GraphPipeStage> stages;
    for (const PipeDreamStage& s : partition->stages) {
      stages.push_back(StageOf(s.nodes, s.replicas, b));
    }
    best.Offer(EvaluateStages(problem, std::move(stages)),
               partition->bottleneck_s * problem.mini_batch / b, problem.sequential);
  }
  return best;
}

// The published search, then steps from its plan and from PipeDream's on the simulated iteration.
absl::StatusOr<GraphSearchResult> RunGraphPipe(const GraphPipeProblem& problem) {
  Best best;
  const auto refine = [&](const GraphPipePlan& plan) {
    auto refined = RefinePlan(problem, plan);
    const double estimate = refined.ok() ? refined->bottleneck_s * problem.mini_batch : 0;
    best.Offer(std::move(refined), estimate, problem.sequential);
  };
  const auto published = PartitionGraphPipe(problem);
  if (published.ok()) {
    refine(*published);
  } else {
    best.Fail(published.status());
    if (!absl::IsFailedPrecondition(published.status())) return published.status();
  }
  const auto linear = PipeDreamPlans(problem).Take();
  if (linear.ok()) refine(linear->plan);
  return best.Take();
}

constexpr std::array<GraphSearcher, 5> kSearchers = {{
    {"graphpipe", "stage graphs that keep the model's branches", SearchGraphPipe},
    {"sequential", "the same over operators in a line", SearchSequential},
    {"pipedream", "PipeDream's dynamic program over the linearised model", SearchPipeDream},
    {"piper", "Piper's dynamic program over downsets", SearchPiper},
    {"phaze", "Phaze's device placement over downsets", SearchPhaze},
}};

}  // namespace

std::span<const GraphSearcher> GraphSearchers() { return kSearchers; }

absl::StatusOr<GraphSearchResult> SearchGraphPipe(const GraphPipeProblem& problem) {
  GraphPipeProblem p = problem;
  p.sequential = false;
  return RunGraphPipe(p);
}

absl::StatusOr<GraphSearchResult> SearchSequential(const GraphPipeProblem& problem) {
  GraphPipeProblem p = problem;
  p.sequential = true;
  return RunGraphPipe(p);
}

absl::StatusOr<GraphSearchResult> SearchPipeDream(const GraphPipeProblem& problem) {
  GraphPipeProblem p = problem;
  p.sequential = true;
  return PipeDreamPlans(p).Take();
}

absl::StatusOr<GraphSearchResult> SearchPiper(const GraphPipeProblem& problem) {
  GraphPipeProblem p = problem;
  p.sequential = true;
  Best best;
  for (const int32_t b : MicroBatches(p)) {
    const auto partition = PartitionPiper(PiperProblemOf(p, b));
    if (!partition.ok()) {
      best.Fail(partition.status());
      // The downsets are the same whatever the size.
      if (std::string(partition.status().message()).find("downsets") != std::string::npos) break;
      continue;
    }
    std::vector<GraphPipeStage> stages;
    int32_t widest = 1;
    for (const PiperStage& s : partition->stages) widest = std::max(widest, s.data_parallel);
    // Replicas take whole micro-batches of b each; together they make up one of the pipeline's.
    const auto size = static_cast<int32_t>(
        std::min<int64_t>(int64_t{b} * std::bit_ceil(static_cast<uint32_t>(widest)), p.mini_batch));
    for (const PiperStage& s : partition->stages) {
      stages.push_back(StageOf(s.nodes, s.data_parallel, size));
    }
    best.Offer(EvaluateStages(p, std::move(stages)),
               partition->time_per_sample_s * p.mini_batch / b, true);
  }
  return best.Take();
}

absl::StatusOr<GraphSearchResult> SearchPhaze(const GraphPipeProblem& problem) {
  GraphPipeProblem p = problem;
  p.sequential = true;
  Best best;
  for (const int32_t b : MicroBatches(p)) {
    const auto placement = PlacePhaze(PhazeProblemOf(p, b));
    if (!placement.ok()) {
      best.Fail(placement.status());
      continue;
    }
    const int32_t replicas = placement->data_parallel;
    std::vector<GraphPipeStage> stages;
    const auto size = static_cast<int32_t>(std::min<int64_t>(
        int64_t{b} * std::bit_ceil(static_cast<uint32_t>(replicas)), p.mini_batch));
    for (const PhazeStage& s : placement->stages) {
      stages.push_back(StageOf(s.layers, replicas, size));
    }
    best.Offer(EvaluateStages(p, std::move(stages)), placement->batch_s, true);
  }
  return best.Take();
}

}  // namespace foretrace
