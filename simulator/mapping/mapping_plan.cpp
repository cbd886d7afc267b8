#include "simulator/mapping/mapping_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "simulator/base/status_macros.h"
#include "simulator/mapping/exchange_steps.h"
#include "simulator/mapping/kept_inputs.h"
#include "simulator/mapping/mapped_line.h"
#include "simulator/mapping/mapping_groups.h"
#include "simulator/mapping/pass_plan.h"
#include "simulator/plan/lowering.h"

namespace foretrace {
namespace {

// After the last pass.
PlanBody EndOf(const PlanParts& p, int32_t stage) {
  PlanBody body;
  Awaited reduced = TheMark(kReduced);
  if (!ReducesByLayer(p.m)) AddReduction(p, 0, 1, body, reduced);
  const bool end = stage == 0 || stage + 1 == p.m.pipeline;
  if (p.groups.tied != kNoGroup && end) {
    PlanStep tied = ExchangeStep(CollectiveOp::kAllReduce, Named("tied gradients"), p.groups.tied,
                                 p.passes.tied_bytes, p.passes.tied_reduction);
    reduced = body.Exchange(std::move(tied), {AfterKernels().front(), reduced});
  }
  body.Kernel(Named("optimizer"), p.passes.optimizer, {reduced});
  return body;
}

PlannedStage StageOf(const PlanParts& p, TimedStage timed, int32_t stage) {
  PlannedStage out;
  out.source = ToString(p.m);
  out.ranks.resize(static_cast<size_t>(p.m.replicas() * p.m.tensor));
  std::iota(out.ranks.begin(), out.ranks.end(), RankOf(p.m, {stage, 0, 0}));
  out.tensor = p.m.tensor;
  out.passes = std::move(timed.passes);
  std::map<std::tuple<PassKind, int32_t, bool, bool>, uint32_t> bodies;
  const bool differ = p.passes.lone != nullptr;
  const std::vector<bool> lone = differ ? LonePasses(out.passes) : std::vector<bool>();
  const PlanParts alone{p.model, p.m, differ ? *p.passes.lone : p.passes, p.groups};
  for (size_t i = 0; i < out.passes.size(); ++i) {
    const Pass& pass = out.passes[i];
    const bool last = pass.microbatch + 1 == p.m.chunk_microbatches();
    const bool by_itself = differ && lone[i];
    const auto [it, added] = bodies.try_emplace({pass.kind, pass.chunk, last, by_itself},
                                                static_cast<uint32_t>(out.bodies.size()));
    if (added) {
      const PlanParts& of = by_itself ? alone : p;
      out.bodies.push_back(PlanOfPass(of, {stage, pass.chunk, pass.kind, last}));
    }
    out.body_of.push_back(it->second);
  }
  out.end = EndOf(p, stage);
  return out;
}

}  // namespace

absl::StatusOr<JobPlan> PlanOf(const TransformerConfig& model, const ParallelMapping& m,
                               const PassTimes& passes) {
  FORETRACE_RETURN_IF_ERROR(CheckMapping(model, m, 0));
  JobPlan plan;
  plan.name = "mapping " + ToString(m);
  plan.shorter = "A smaller global batch (gbN) gives shorter";
  plan.producer = "foretrace generate";
  plan.dtype = model.dtype;
  const double of_device = static_cast<double>(m.microbatches()) * m.chunks * 2;
  FORETRACE_RETURN_IF_ERROR(
      CheckNodes(of_device * static_cast<double>(m.devices()), plan.name, plan.shorter));
  FORETRACE_ASSIGN_OR_RETURN(TimedPipeline pipeline, PipelineOf(model, m, passes));
  plan.mini_batch = pipeline.mini_batch;
  const MappingGroups groups = AddMappingGroups(m, passes, plan);
  plan.links = groups.pipeline;
  const bool holds = WaitsForMessages(m, passes);
  for (TimedEdge edge : pipeline.edges) {
    edge.forward_transfer = passes.transfer;
    edge.backward_transfer = holds ? passes.gradient_transfer : passes.transfer;
    plan.edges.push_back({edge, passes.transfer_bytes, holds});
  }
  const PlanParts parts{model, m, passes, groups};
  for (int32_t s = 0; s < m.pipeline; ++s) {
    plan.stages.push_back(StageOf(parts, std::move(pipeline.stages[static_cast<size_t>(s)]), s));
  }
  return plan;
}

}  // namespace foretrace
