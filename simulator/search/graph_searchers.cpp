#include "simulator/search/graph_searchers.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <utility>

#include "simulator/base/check.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/search/coarsen.h"
#include "simulator/search/graphpipe_plan.h"
#include "simulator/search/workload_problem.h"

namespace foretrace {
namespace {

// More micro-batches than this are not worth simulating: their passes are all overhead.
constexpr int32_t kMostMicroBatches = 4096;

// Searches look at pairs of positions or of downsets at every size of micro-batch; these keep each
// within a second or two. GraphPipe's authors suggest groups of operators too (section 3.5).
constexpr size_t kMostOperators = 128;
constexpr size_t kMostDownsets = 300;

std::vector<int32_t> MicroBatches(const GraphPipeProblem& problem) {
  if (!problem.micro_batches.empty()) return problem.micro_batches;
  std::vector<int32_t> sizes;
  for (int32_t b = 1; b <= problem.mini_batch; b *= 2) {
    if (problem.mini_batch / b <= kMostMicroBatches) sizes.push_back(b);
  }
  return sizes;
}

// The plan of the shortest simulated iteration over all sizes of micro-batch; the first reason
// where none fits.
class Best {
 public:
  void Offer(absl::StatusOr<GraphPipePlan> plan, RealSeconds estimate, bool sequential) {
    if (!plan.ok()) return Fail(plan.status());
    if (found_ && found_->plan.iteration <= plan->iteration) return;
    found_ = GraphSearchResult{*std::move(plan), sequential, estimate, ""};
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

GraphPipeStage StageOf(std::vector<int32_t> ops, int32_t replicas, int32_t micro_batch,
                       std::vector<int32_t> recomputed = {}, int32_t tensor = 1) {
  GraphPipeStage stage;
  std::sort(ops.begin(), ops.end());
  std::sort(recomputed.begin(), recomputed.end());
  stage.recomputed = std::move(recomputed);
  stage.ops = std::move(ops);
  stage.devices = replicas * tensor;
  stage.tensor = tensor;
  stage.config = {micro_batch, 1};
  return stage;
}

std::vector<int32_t> MembersOf(const CoarseProblem& coarse, const std::vector<int32_t>& ops) {
  std::vector<int32_t> members;
  for (const int32_t op : ops) {
    const auto& of = coarse.members[static_cast<size_t>(op)];
    members.insert(members.end(), of.begin(), of.end());
  }
  return members;
}

std::string NoteOf(const GraphPipeProblem& problem, const CoarseProblem& coarse) {
  if (coarse.members.size() == problem.ops.size()) return "";
  return fmt::format("looked at {} groups of the {} operators, the smallest merged into neighbours",
                     coarse.members.size(), problem.ops.size());
}

absl::StatusOr<CoarseProblem> Grouped(const GraphPipeProblem& problem, size_t downsets) {
  FORETRACE_RETURN_IF_ERROR(internal::CheckProblem(problem));
  FORETRACE_RETURN_IF_ERROR(internal::GraphOf(problem).status());
  return Coarsen(problem, kMostOperators, downsets);
}

// PipeDream's partitions of the operators in a line, one for each size of micro-batch, judged as
// stages of `problem`.
Best PipeDreamPlans(const GraphPipeProblem& problem, const CoarseProblem& coarse) {
  Best best;
  for (const int32_t b : MicroBatches(problem)) {
    PipeDreamProblem linear = PipeDreamProblemOf(coarse.problem, b);
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
      stages.push_back(StageOf(MembersOf(coarse, s.nodes), s.replicas, b));
    }
    best.Offer(EvaluateStages(problem, std::move(stages)),
               problem.mini_batch * partition->bottleneck / b, problem.sequential);
  }
  return best;
}

// The published search, then steps from its plan and from PipeDream's on the simulated iteration.
absl::StatusOr<GraphSearchResult> RunGraphPipe(const GraphPipeProblem& problem) {
  FORETRACE_ASSIGN_OR_RETURN(const CoarseProblem coarse, Grouped(problem, kAnyDownsets));
  Best best;
  int32_t linearised = 0;
  const auto refine = [&](std::vector<GraphPipeStage> stages) -> absl::Status {
    FORETRACE_ASSIGN_OR_RETURN(GraphPipePlan plan, EvaluateStages(problem, std::move(stages)));
    FORETRACE_ASSIGN_OR_RETURN(plan, RefinePlan(problem, std::move(plan)));
    plan.linearised = linearised;
    const RealSeconds estimate = problem.mini_batch * plan.bottleneck;
    best.Offer(std::move(plan), estimate, problem.sequential);
    return absl::OkStatus();
  };
  const auto published = PartitionGraphPipe(coarse.problem);
  if (published.ok()) {
    linearised = published->linearised;
    std::vector<GraphPipeStage> stages = published->stages;
    for (GraphPipeStage& s : stages) s.ops = MembersOf(coarse, s.ops);
    FORETRACE_RETURN_IF_ERROR(refine(std::move(stages)));
  } else {
    best.Fail(published.status());
  }
  const auto linear = PipeDreamPlans(problem, coarse).Take();
  if (linear.ok()) FORETRACE_RETURN_IF_ERROR(refine(linear->plan.stages));
  FORETRACE_ASSIGN_OR_RETURN(GraphSearchResult result, best.Take());
  result.note = NoteOf(problem, coarse);
  return result;
}

// A published program's plan for one size of micro-batch, stage by stage.
struct ChainOfStages {
  struct Stage {
    std::vector<int32_t> ops;
    int32_t replicas = 1;
    std::vector<int32_t> recomputed;
    int32_t tensor = 1;
  };
  std::vector<Stage> stages;
  RealSeconds estimate;  // of an iteration
};
using ChainPlans = std::vector<absl::StatusOr<ChainOfStages>>;

// Asks `plans` at every size of micro-batch, on a graph with few enough downsets.
template <typename Plans>
absl::StatusOr<GraphSearchResult> OverDownsets(const GraphPipeProblem& problem,
                                               const Plans& plans) {
  GraphPipeProblem p = problem;
  p.sequential = true;
  FORETRACE_ASSIGN_OR_RETURN(const CoarseProblem coarse, Grouped(p, kMostDownsets));
  Best best;
  for (const int32_t b : MicroBatches(p)) {
    for (const absl::StatusOr<ChainOfStages>& chain : plans(coarse.problem, b)) {
      if (!chain.ok()) {
        best.Fail(chain.status());
        continue;
      }
      int32_t widest = 1;
      for (const auto& stage : chain->stages) widest = std::max(widest, stage.replicas);
      // Replicas take whole micro-batches of b each; together they make up one of the pipeline's.
      const auto size = static_cast<int32_t>(std::min<int64_t>(
          int64_t{b} * std::bit_ceil(static_cast<uint32_t>(widest)), p.mini_batch));
      std::vector<GraphPipeStage> stages;
      for (const auto& s : chain->stages) {
        stages.push_back(StageOf(MembersOf(coarse, s.ops), s.replicas, size,
                                 MembersOf(coarse, s.recomputed), s.tensor));
      }
      best.Offer(EvaluateStages(p, std::move(stages)), chain->estimate, true);
    }
  }
  FORETRACE_ASSIGN_OR_RETURN(GraphSearchResult result, best.Take());
  result.note = NoteOf(p, coarse);
  return result;
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
  FORETRACE_ASSIGN_OR_RETURN(const CoarseProblem coarse, Grouped(p, kAnyDownsets));
  FORETRACE_ASSIGN_OR_RETURN(GraphSearchResult result, PipeDreamPlans(p, coarse).Take());
  result.note = NoteOf(p, coarse);
  return result;
}

namespace {

absl::StatusOr<ChainOfStages> PiperChain(const GraphPipeProblem& p, int32_t b) {
  const PiperProblem piper = PiperProblemOf(p, b);
  FORETRACE_ASSIGN_OR_RETURN(const PiperPlan plan, PartitionPiper(piper));
  ChainOfStages chain{{}, p.mini_batch * plan.time_per_sample / b};
  for (const PiperStage& s : plan.stages) {
    ChainOfStages::Stage stage{s.nodes, s.data_parallel, {}, s.tensor_parallel};
    for (size_t i = 0; i < s.nodes.size(); ++i) {
      const auto& options = piper.nodes[static_cast<size_t>(s.nodes[i])].at(s.tensor_parallel);
      if (options[static_cast<size_t>(s.options[i])].recompute) {
        stage.recomputed.push_back(s.nodes[i]);
      }
    }
    chain.stages.push_back(std::move(stage));
  }
  return chain;
}

absl::StatusOr<ChainOfStages> PhazeChain(const PhazeProblem& problem) {
  FORETRACE_ASSIGN_OR_RETURN(const PhazePlan plan, PlacePhaze(problem));
  ChainOfStages chain{{}, plan.batch};
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const std::vector<int32_t>& layers = plan.stages[i].layers;
    const bool repeats = plan.recompute && i + 1 < plan.stages.size();
    chain.stages.push_back({layers, plan.data_parallel, repeats ? layers : std::vector<int32_t>(),
                            plan.stages[i].accelerators});
  }
  return chain;
}

}  // namespace

absl::StatusOr<GraphSearchResult> SearchPiper(const GraphPipeProblem& problem) {
  return OverDownsets(
      problem, [](const GraphPipeProblem& p, int32_t b) { return ChainPlans{PiperChain(p, b)}; });
}

// The simulation judges micro-batches, widths and activations kept or not, which the program would
// choose by its own formula.
absl::StatusOr<GraphSearchResult> SearchPhaze(const GraphPipeProblem& problem) {
  return OverDownsets(problem, [](const GraphPipeProblem& p, int32_t b) {
    PhazeProblem phaze = PhazeProblemOf(p, {b});
    ChainPlans plans;
    for (const PhazeActivations activations : std::vector(phaze.activations)) {
      for (const PhazeOption& option : std::vector(phaze.options)) {
        PhazeProblem one = phaze;
        one.activations = {activations};
        one.options = {option};
        plans.push_back(PhazeChain(one));
      }
    }
    return plans;
  });
}

}  // namespace foretrace
