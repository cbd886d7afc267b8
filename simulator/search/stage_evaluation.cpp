// Costs and simulation of given stages: what all searchers over stage graphs are judged by.

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <utility>

#include "simulator/base/check.h"
#include "simulator/base/error.h"
#include "simulator/base/real_sizes.h"
#include "simulator/base/status_macros.h"
#include "simulator/search/graphpipe_plan.h"

namespace foretrace {

const GraphPipeOp& GraphPipeProblem::PartOf(int32_t op, int32_t width) const {
  const GraphPipeOp& whole = ops[static_cast<size_t>(op)];
  const auto at = std::find(widths.begin(), widths.end(), width);
  return at == widths.end() ? whole : whole.parts[static_cast<size_t>(at - widths.begin())];
}

GradientReduction ReductionOf(const GraphPipeProblem& problem, const GraphPipeStage& stage) {
  GradientReduction sum;
  for (const int32_t op : stage.ops) sum.bytes += problem.PartOf(op, stage.tensor).gradient_bytes;
  const int32_t d = stage.replicas();
  if (d < 2) return sum;
  sum.time = problem.all_reduce ? problem.all_reduce(d, stage.tensor, sum.bytes)
                                : 2.0 * (d - 1) / d * sum.bytes / problem.bandwidth;
  return sum;
}

namespace internal {
namespace {

constexpr int32_t kMaxDevices = 65536;

// Operators that some stage recomputes.
std::vector<bool> RecomputedOps(const GraphPipeProblem& p, const GraphPipePlan& plan) {
  std::vector<bool> recomputed(p.ops.size());
  for (const GraphPipeStage& stage : plan.stages) {
    for (const int32_t op : stage.recomputed) recomputed[static_cast<size_t>(op)] = true;
  }
  return recomputed;
}

// Of one stage's operators; borders are for the caller.
void AddOps(const GraphPipeProblem& p, const GraphPipeStage& stage,
            const std::vector<bool>& recomputed, StageLoad& load) {
  for (const int32_t op : stage.ops) {
    const GraphPipeOp& o = p.PartOf(op, stage.tensor);
    const bool again = recomputed[static_cast<size_t>(op)];
    load.times.resize(o.forward.size());
    for (size_t i = 0; i < load.times.size(); ++i) {
      load.times[i] += (again ? 2 : 1) * o.forward[i] + o.backward[i];
    }
    load.fixed_bytes += o.fixed_bytes;
    load.gradient_bytes += o.gradient_bytes;
    (again ? load.repeated_bytes : load.stash_bytes) += o.stash_bytes;
  }
}

}  // namespace

void CompletePlan(const GraphPipeProblem& p, GraphPipePlan& plan) {
  std::vector<int32_t> stage_of(p.ops.size(), -1);
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    for (const int32_t op : plan.stages[s].ops) {
      stage_of[static_cast<size_t>(op)] = static_cast<int32_t>(s);
    }
  }
  const std::vector<bool> recomputed = RecomputedOps(p, plan);
  std::vector<StageLoad> loads(plan.stages.size());
  std::vector<std::set<int32_t>> successors(plan.stages.size());
  for (const GraphPipeEdge& e : p.edges) {
    const int32_t from = stage_of[static_cast<size_t>(e.from)];
    const int32_t to = stage_of[static_cast<size_t>(e.to)];
    if (recomputed[static_cast<size_t>(e.to)] &&
        (from != to || !recomputed[static_cast<size_t>(e.from)])) {
      loads[static_cast<size_t>(to)].stash_bytes += e.bytes;
    }
    if (from == to) continue;
    FORETRACE_CHECK(from < to);
    successors[static_cast<size_t>(from)].insert(to);
    loads[static_cast<size_t>(from)].out_bytes += e.bytes;
    loads[static_cast<size_t>(to)].in_bytes += e.bytes;
  }
  if (p.sequential) {
    // The linear order is a dependency too: each stage feeds the next.
    for (size_t s = 0; s + 1 < plan.stages.size(); ++s) {
      successors[s].insert(static_cast<int32_t>(s) + 1);
    }
  }
  std::vector<int32_t> depth(plan.stages.size(), 1);
  for (size_t s = plan.stages.size(); s-- > 0;) {
    GraphPipeStage& stage = plan.stages[s];
    stage.successors.assign(successors[s].begin(), successors[s].end());
    stage.in_flight_samples = LastStageInFlight(stage.config);
    for (const int32_t next : stage.successors) {
      const GraphPipeStage& n = plan.stages[static_cast<size_t>(next)];
      stage.in_flight_samples = std::max(
          stage.in_flight_samples, ComputeInFlight(stage.config, n.config, n.in_flight_samples));
      depth[s] = std::max(depth[s], depth[static_cast<size_t>(next)] + 1);
    }
    StageLoad& load = loads[s];
    AddOps(p, stage, recomputed, load);
    stage.time_per_sample = TimePerSample(p, load, stage.config, stage.replicas());
    stage.stash_bytes = load.stash_bytes;
    stage.repeated_bytes = load.repeated_bytes;
    stage.memory =
        StageMemory(load, stage.in_flight_samples, stage.config.micro_batch, stage.replicas());
    plan.bottleneck = std::max(plan.bottleneck, stage.time_per_sample);
    plan.depth = std::max(plan.depth, depth[s]);
    plan.devices += stage.devices;
  }
}

absl::Status SimulatePlan(const GraphPipeProblem& p, GraphPipePlan& plan) {
  const TimedPipeline pipeline = TimedPipelineOf(p, plan);
  FORETRACE_ASSIGN_OR_RETURN(const PipelineTiming timing, TimePipeline(pipeline));
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    plan.iteration = std::max(plan.iteration, RealSeconds(timing.stage_end[s].seconds()) +
                                                  ReductionOf(p, plan.stages[s]).time);
  }
  return absl::OkStatus();
}

absl::Status CheckProblem(const GraphPipeProblem& p) {
  if (p.ops.empty()) return InvalidInput("graphpipe: the model has no operators");
  if (p.devices < 1 || p.devices > kMaxDevices || !(p.bandwidth > Bandwidth()) ||
      p.mini_batch < 1 || !std::has_single_bit(static_cast<uint32_t>(p.mini_batch))) {
    return InvalidInput(
        "graphpipe: devices and bandwidth must be positive, the mini-batch a power of two");
  }
  const size_t sizes = p.ops[0].forward.size();
  for (const GraphPipeOp& op : p.ops) {
    if (op.parts.size() != p.widths.size()) {
      return InvalidInput("graphpipe: operators need a part for each tensor-parallel width");
    }
    if (sizes == 0 || sizes > 31 || op.forward.size() != sizes || op.backward.size() != sizes) {
      return InvalidInput("graphpipe: operators need times for the same 1 to 31 batch sizes");
    }
  }
  for (const int32_t x : p.micro_batches) {
    if (x < 1 || p.mini_batch % x != 0) {
      return InvalidInput("graphpipe: micro-batch size {} does not divide the mini-batch of {}", x,
                          p.mini_batch);
    }
  }
  for (const int32_t k : p.k) {
    if (k < 1 || !std::has_single_bit(static_cast<uint32_t>(k))) {
      return InvalidInput("graphpipe: k must be a power of two, not {}", k);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<OpGraph> GraphOf(const GraphPipeProblem& problem) {
  std::vector<std::pair<int32_t, int32_t>> edges;
  for (const GraphPipeEdge& e : problem.edges) edges.emplace_back(e.from, e.to);
  return OpGraph::Create(static_cast<int32_t>(problem.ops.size()), edges);
}

}  // namespace internal

namespace {

// What a stage's devices sum within a pass of a micro-batch.
void AddExchanges(const GraphPipeOp::Exchanges& of, int32_t samples, RealSeconds& time,
                  PassExchangeTime& sum) {
  if (of.count == 0) return;
  time += internal::TimeAt(of.times, samples);
  sum.bytes += WholeBytes((samples * of.bytes).count());
  sum.count += of.count;
}

void SetExchanges(const GraphPipeProblem& p, const GraphPipeStage& stage, TimedStage& timed) {
  const int32_t samples = (stage.config.micro_batch + stage.replicas() - 1) / stage.replicas();
  RealSeconds forward, backward;
  for (const int32_t op : stage.ops) {
    const GraphPipeOp& part = p.PartOf(op, stage.tensor);
    AddExchanges(part.forward_exchanges, samples, forward, timed.forward_exchange);
    AddExchanges(part.backward_exchanges, samples, backward, timed.backward_exchange);
  }
  for (const int32_t op : stage.recomputed) {
    AddExchanges(p.PartOf(op, stage.tensor).forward_exchanges, samples, backward,
                 timed.backward_exchange);
  }
  timed.forward_exchange.time = SimTime::FromSeconds(forward.seconds());
  timed.backward_exchange.time = SimTime::FromSeconds(backward.seconds());
}

// Of a stage's micro-batch, forward and backward. `border`: what of a sample crosses the stage's
// border.
std::pair<RealSeconds, RealSeconds> PassesOf(const GraphPipeProblem& p, const GraphPipeStage& stage,
                                             RealBytes border) {
  const int32_t b = stage.config.micro_batch;
  const int32_t samples = (b + stage.replicas() - 1) / stage.replicas();
  RealSeconds forward, backward;
  for (const int32_t op : stage.ops) {
    forward += internal::TimeAt(p.PartOf(op, stage.tensor).forward, samples);
    backward += internal::TimeAt(p.PartOf(op, stage.tensor).backward, samples);
  }
  for (const int32_t op : stage.recomputed) {
    backward += internal::TimeAt(p.PartOf(op, stage.tensor).forward, samples);
  }
  // Transfers of different edges overlap with computation and each other, but a stage passes
  // micro-batches no faster than its links carry what crosses its border.
  const RealSeconds link = b * internal::LinkPerSample(p, border, stage.replicas());
  if (link > forward + backward && forward + backward > RealSeconds()) {
    const double stretch = link / (forward + backward);
    forward = stretch * forward;
    backward = stretch * backward;
  }
  return {forward, backward};
}

}  // namespace

TimedPipeline TimedPipelineOf(const GraphPipeProblem& p, const GraphPipePlan& plan) {
  TimedPipeline pipeline;
  pipeline.mini_batch = p.mini_batch;
  std::vector<int32_t> stage_of(p.ops.size());
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    for (const int32_t op : plan.stages[s].ops) {
      stage_of[static_cast<size_t>(op)] = static_cast<int32_t>(s);
    }
  }
  std::map<std::pair<int32_t, int32_t>, RealBytes> bytes;  // per sample, between stages
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    for (const int32_t next : plan.stages[s].successors) bytes[{static_cast<int32_t>(s), next}];
  }
  std::vector<RealBytes> border(plan.stages.size());
  for (const GraphPipeEdge& e : p.edges) {
    const int32_t from = stage_of[static_cast<size_t>(e.from)];
    const int32_t to = stage_of[static_cast<size_t>(e.to)];
    if (from == to) continue;
    bytes[{from, to}] += e.bytes;
    border[static_cast<size_t>(from)] += e.bytes;
    border[static_cast<size_t>(to)] += e.bytes;
  }
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const GraphPipeStage& stage = plan.stages[s];
    const int32_t b = stage.config.micro_batch;
    const auto [forward, backward] = PassesOf(p, stage, border[s]);
    const int64_t in_flight = (stage.in_flight_samples + b - 1) / b;
    const auto count = static_cast<int64_t>(p.mini_batch / b);
    pipeline.stages.push_back({b,
                               KFKBSchedule(p.mini_batch / b, stage.config.k,
                                            static_cast<int32_t>(std::min(in_flight, count))),
                               {SimTime::FromSeconds(forward.seconds())},
                               {SimTime::FromSeconds(backward.seconds())},
                               {}});
    SetExchanges(p, stage, pipeline.stages.back());
  }
  for (const auto& [ends, per_sample] : bytes) {
    const GraphPipeStage& from = plan.stages[static_cast<size_t>(ends.first)];
    const GraphPipeStage& to = plan.stages[static_cast<size_t>(ends.second)];
    // The side with fewer links bounds the transfer of one of its micro-batches.
    const int32_t transferred = std::max(from.config.micro_batch, to.config.micro_batch);
    const int32_t links = std::min(from.replicas(), to.replicas());
    const SimTime time =
        SimTime::FromSeconds((transferred * per_sample / links / p.bandwidth).seconds());
    pipeline.edges.push_back({ends.first, 0, ends.second, 0, time, time});
  }
  return pipeline;
}

absl::StatusOr<GraphPipePlan> EvaluateStages(const GraphPipeProblem& problem,
                                             std::vector<GraphPipeStage> stages) {
  FORETRACE_RETURN_IF_ERROR(internal::CheckProblem(problem));
  FORETRACE_RETURN_IF_ERROR(internal::GraphOf(problem).status());
  FORETRACE_RETURN_IF_ERROR(internal::CheckStages(problem, stages));
  GraphPipePlan plan;
  plan.stages = std::move(stages);
  internal::CompletePlan(problem, plan);
  FORETRACE_RETURN_IF_ERROR(internal::CheckMemory(problem, plan));
  FORETRACE_RETURN_IF_ERROR(internal::SimulatePlan(problem, plan));
  return plan;
}

}  // namespace foretrace
