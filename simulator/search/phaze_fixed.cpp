#include <algorithm>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/search/phaze.h"
#include "simulator/search/phaze_loads.h"

namespace foretrace {
namespace {

absl::StatusOr<PhazePlan> FixedPlacement(const PhazeProblem& problem, const PhazeOption& option,
                                         int32_t stages, int32_t data_parallel) {
  FORETRACE_ASSIGN_OR_RETURN(const PhazeLayers model, problem.layers_of(option));
  FORETRACE_ASSIGN_OR_RETURN(const OpGraph graph, PhazeGraph(problem, option, model));
  const PhazeChoice choice{problem, model, option, false, problem.MicroBatches(option)};
  const PhazeStageLoads loads(choice, graph);
  PhazePlan plan;
  plan.width = option.width;
  plan.micro_batch = option.micro_batch;
  plan.data_parallel = data_parallel;
  const int32_t each = problem.layers / stages;
  double slowest = 0;
  double first_bytes = 0;
  for (int32_t i = 0; i < stages; ++i) {
    const auto begin = graph.topological_order().begin() + i * each;
    const auto end = i + 1 == stages ? graph.topological_order().end() : begin + each;
    PhazeStage stage;
    stage.layers.assign(begin, end);
    const PhazeLoad load = loads.Of(stage.layers);
    stage.accelerators = load.accelerators;
    stage.load = RealSeconds(load.At(stages - i));
    stage.memory = load.MemoryAt(stages - i);
    if (i == 0) first_bytes = load.parameter_bytes;
    slowest = std::max(slowest, stage.load.seconds());
    plan.stages.push_back(std::move(stage));
  }
  plan.batch = RealSeconds(slowest * PhazeFactor(choice, data_parallel, stages) +
                           PhazeSyncTime(problem, first_bytes, data_parallel));
  return plan;
}

}  // namespace

absl::StatusOr<PhazePlan> EvaluateFixedPlacement(const PhazeProblem& problem, int32_t stages,
                                                 int32_t width, int32_t data_parallel) {
  FORETRACE_RETURN_IF_ERROR(CheckProblem(problem));
  if (stages < 1 || stages > problem.layers || data_parallel < 1) {
    return InvalidInput("phaze: {} stages of {} layers are not possible", stages, problem.layers);
  }
  PhazePlan best;
  best.batch = RealSeconds::Infinite();
  for (const PhazeOption& option : problem.options) {
    if (option.width != width) continue;
    FORETRACE_ASSIGN_OR_RETURN(PhazePlan plan,
                               FixedPlacement(problem, option, stages, data_parallel));
    if (plan.batch < best.batch) best = std::move(plan);
  }
  if (best.stages.empty()) {
    return InvalidInput("phaze: width {} is not among those given", width);
  }
  return best;
}

}  // namespace foretrace
