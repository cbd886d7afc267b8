#include "simulator/planning/mappings/phaze_plan.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "simulator/base/real_sizes.h"
#include "simulator/base/status_macros.h"
#include "simulator/engine/replay.h"
#include "simulator/plan/lowering.h"

namespace foretrace {
namespace {

// What leaves the stages up to `edge` for those behind.
RealBytes Crossing(const PhazeProblem& problem, const PhazeLayers& model, const PhazePlan& plan,
                   size_t edge) {
  std::vector<bool> before(static_cast<size_t>(problem.layers));
  for (size_t s = 0; s <= edge; ++s) {
    for (const int32_t layer : plan.stages[s].layers) before[static_cast<size_t>(layer)] = true;
  }
  RealBytes bytes;
  for (const PhazeEdge& e : model.edges) {
    if (before[static_cast<size_t>(e.from)] && !before[static_cast<size_t>(e.to)]) bytes += e.bytes;
  }
  return bytes;
}

PlannedStage StageOf(const PhazeProblem& problem, const PhazeLayers& model, const PhazePlan& plan,
                     int32_t stage, int32_t micro_batches) {
  const auto stages = static_cast<int32_t>(plan.stages.size());
  SimTime forward, backward;
  RealBytes parameters;
  for (const int32_t layer : plan.stages[static_cast<size_t>(stage)].layers) {
    const PhazeLayer& l = model.layers[static_cast<size_t>(layer)];
    forward += SimTime::FromSeconds(l.forward.seconds());
    backward += SimTime::FromSeconds(l.backward.seconds());
    parameters += l.parameter_bytes;
  }
  if (plan.recompute && stage + 1 < stages) backward += forward;
  PlannedStage out;
  out.source = "a placement";
  out.ranks = {stage};
  out.passes = KFKBSchedule(micro_batches, 1, std::min(stages - stage, micro_batches));
  out.bodies.resize(2);
  out.bodies[0].Kernel(OfPass(), forward, AfterInputs());
  out.bodies[1].Kernel(OfPass(), backward, AfterInputs());
  for (const Pass& pass : out.passes) {
    out.body_of.push_back(pass.kind == PassKind::kForward ? 0 : 1);
  }
  const int32_t d = plan.data_parallel;
  out.end.Kernel(Named("gradients of all replicas"),
                 SimTime::FromSeconds(4.0 * (d - 1) * parameters.count() /
                                      (d * problem.bandwidth.bytes_per_second())));
  return out;
}

}  // namespace

absl::StatusOr<JobPlan> PlanOf(const PhazeProblem& problem, const PhazePlan& placement) {
  JobPlan plan;
  plan.name = "the placement";
  plan.shorter = "A smaller global batch gives shorter";
  plan.producer = "foretrace architect";
  const int32_t d = placement.data_parallel;
  const int32_t micro_batches = (problem.MicroBatches(placement.option()) + d - 1) / d;
  const auto stages = static_cast<int32_t>(placement.stages.size());
  FORETRACE_RETURN_IF_ERROR(CheckNodes(2.0 * micro_batches * stages, plan.name, plan.shorter));
  FORETRACE_ASSIGN_OR_RETURN(const PhazeLayers model, problem.layers_of(placement.option()));
  plan.mini_batch = micro_batches;
  std::vector<int32_t> ranks(placement.stages.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  plan.links = plan.AddGroup("pipeline", {std::move(ranks)});
  for (int32_t s = 0; s < stages; ++s) {
    plan.stages.push_back(StageOf(problem, model, placement, s, micro_batches));
    if (s + 1 == stages) continue;
    const RealBytes bytes = Crossing(problem, model, placement, static_cast<size_t>(s));
    const SimTime time = SimTime::FromSeconds((bytes / problem.bandwidth).seconds());
    plan.edges.push_back({{s, 0, s + 1, 0, time, time}, WholeBytes(bytes.count())});
  }
  return plan;
}

absl::StatusOr<SimTime> SimulatePlacement(const PhazeProblem& problem, const PhazePlan& placement) {
  FORETRACE_ASSIGN_OR_RETURN(const JobPlan plan, PlanOf(problem, placement));
  FORETRACE_ASSIGN_OR_RETURN(const TraceStore store, Lower(plan, {}));
  FORETRACE_ASSIGN_OR_RETURN(const Prediction prediction, Predict(store, {}, nullptr));
  return prediction.schedule.makespan;
}

}  // namespace foretrace
