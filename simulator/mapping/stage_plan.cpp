#include "simulator/mapping/stage_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/plan/lowering.h"

namespace foretrace {
namespace {

// Kernels in equal parts, and after each what the devices of a replica sum.
PlanBody BodyOf(SimTime duration, const PassExchangeTime& exchange, int32_t group) {
  PlanBody body;
  if (exchange.count == 0) {
    body.Kernel(OfPass(), duration, AfterInputs());
    return body;
  }
  SimTime kernels = duration - exchange.time, left = exchange.time;
  for (int32_t i = exchange.count; i > 0; --i) {
    const SimTime part = SimTime::FromPs(kernels.ps() / i), sum = SimTime::FromPs(left.ps() / i);
    kernels -= part;
    left -= sum;
    body.Kernel(OfPass(), part, i == exchange.count ? AfterInputs() : AwaitedList());
    PlanStep step;
    step.name = OfPass("all-reduce ");
    step.duration = sum;
    step.group = group;
    step.op = CollectiveOp::kAllReduce;
    step.bytes = Bytes(exchange.bytes.count() / exchange.count);
    body.HoldingExchange(std::move(step));
  }
  return body;
}

absl::Status Check(const TimedPipeline& pipeline) {
  for (size_t s = 0; s < pipeline.stages.size(); ++s) {
    if (pipeline.stages[s].forward.size() != 1) {
      return InvalidInput("stage {}: chunks are not for stage graphs", s);
    }
    for (const Pass& pass : pipeline.stages[s].passes) {
      if (pass.kind != PassKind::kForward && pass.kind != PassKind::kBackward) {
        return InvalidInput("stage {}: split backward passes are not for stage graphs", s);
      }
    }
  }
  return absl::OkStatus();
}

// Sets of ranks of a stage that are `stride` apart, in blocks of `count` strides.
void AddSets(int32_t first, int32_t devices, int32_t stride, int32_t count,
             std::vector<std::vector<int32_t>>& sets) {
  for (int32_t d = 0; d < devices; ++d) {
    if (d % (stride * count) >= stride) continue;
    std::vector<int32_t> ranks;
    for (int32_t i = 0; i < count; ++i) ranks.push_back(first + d + i * stride);
    sets.push_back(std::move(ranks));
  }
}

struct Groups {
  int32_t tensor = kNoGroup, data = kNoGroup;
};

PlannedStage StageOf(const TimedStage& timed, const PlacedStage& placed, int32_t stage,
                     int32_t first_rank, const Groups& groups) {
  PlannedStage out;
  out.source = fmt::format("stage {} ({})", stage, placed.name);
  out.ranks.resize(static_cast<size_t>(placed.devices));
  std::iota(out.ranks.begin(), out.ranks.end(), first_rank);
  out.tensor = placed.tensor;
  out.micro_batch = timed.micro_batch;
  out.passes = timed.passes;
  out.bodies = {BodyOf(timed.forward[0], timed.forward_exchange, groups.tensor),
                BodyOf(timed.backward[0], timed.backward_exchange, groups.tensor)};
  for (const Pass& pass : out.passes) {
    out.body_of.push_back(pass.kind == PassKind::kForward ? 0 : 1);
  }
  if (placed.devices > placed.tensor && placed.gradient_reduction > SimTime()) {
    PlanStep reduction;
    reduction.name = Named("gradients");
    reduction.duration = placed.gradient_reduction;
    reduction.group = groups.data;
    reduction.op = CollectiveOp::kAllReduce;
    reduction.bytes = placed.gradient_bytes;
    out.end.Exchange(std::move(reduction), AfterKernels());
  }
  return out;
}

}  // namespace

absl::StatusOr<JobPlan> PlanOfStages(const TimedPipeline& pipeline,
                                     const std::vector<PlacedStage>& stages,
                                     const std::vector<Bytes>& edge_bytes, DType dtype) {
  FORETRACE_RETURN_IF_ERROR(Check(pipeline));
  JobPlan plan;
  plan.name = "the stage graph";
  plan.shorter = "A smaller mini-batch gives shorter";
  plan.producer = "foretrace generate";
  plan.dtype = dtype;
  plan.mini_batch = pipeline.mini_batch;
  std::vector<std::vector<int32_t>> tensor, data;
  std::vector<int32_t> first_rank = {0};
  for (const PlacedStage& stage : stages) {
    const int32_t first = first_rank.back();
    AddSets(first, stage.devices, 1, stage.tensor, tensor);
    AddSets(first, stage.devices, stage.tensor, stage.devices / stage.tensor, data);
    first_rank.push_back(first + stage.devices);
  }
  std::vector<int32_t> all(static_cast<size_t>(first_rank.back()));
  std::iota(all.begin(), all.end(), 0);
  plan.links = plan.AddGroup("world", {std::move(all)});
  Groups groups;
  groups.tensor = plan.AddGroup("tensor", std::move(tensor));
  groups.data = plan.AddGroup("data", std::move(data));
  for (size_t s = 0; s < stages.size(); ++s) {
    plan.stages.push_back(
        StageOf(pipeline.stages[s], stages[s], static_cast<int32_t>(s), first_rank[s], groups));
  }
  for (size_t e = 0; e < pipeline.edges.size(); ++e) {
    plan.edges.push_back({pipeline.edges[e], edge_bytes[e], false});
  }
  return plan;
}

}  // namespace foretrace
