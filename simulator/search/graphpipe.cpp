#include "simulator/search/graphpipe.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "simulator/base/check.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/search/graphpipe_solver.h"

namespace foretrace {
namespace {

using internal::GraphPipeModel;
using internal::GraphPipeSolver;
using internal::ItemInstance;
using internal::PartRecord;
using internal::SequenceInstance;
using internal::StageLoad;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int32_t kMaxDevices = 65536;
// The binary search ends when the bracket is this narrow, relative to its upper end.
constexpr double kTolerance = 1e-3;
// An iteration may be shorter than the bottleneck times the mini-batch, because the simulation
// overlaps transfers, which the bottleneck counts in full; by no more than this share.
constexpr double kOverlap = 0.8;

void CollectOps(const ItemInstance& item, std::vector<int32_t>& ops) {
  if (item.op >= 0) ops.push_back(item.op);
  for (const auto& kind : item.branches) {
    for (const SequenceInstance& branch : kind) {
      for (const ItemInstance& inner : branch.items) CollectOps(inner, ops);
    }
  }
}

// Turns records into stages by walking them along an occurrence of the tree.
class PlanReader {
 public:
  PlanReader(const GraphPipeSolver& solver, GraphPipePlan& plan) : solver_(solver), plan_(plan) {}

  void ReadSequence(int32_t index, const SequenceInstance& at) {
    const PartRecord& r = solver_.record(index);
    switch (r.kind) {
      case PartRecord::Kind::kStage: {
        std::vector<int32_t> ops;
        for (int32_t i = r.begin; i < r.end; ++i) CollectOps(at.items[static_cast<size_t>(i)], ops);
        AddStage(r, std::move(ops));
        return;
      }
      case PartRecord::Kind::kSeries:
        ReadSequence(r.first, at);
        ReadSequence(r.second, at);
        return;
      case PartRecord::Kind::kParallelItem: {
        auto left = at.items[static_cast<size_t>(r.begin)].branches;
        ReadBranches(r.first, left);
        return;
      }
      case PartRecord::Kind::kAbsorb: {
        auto left = at.items[static_cast<size_t>(r.begin)].branches;
        auto& kind = left[static_cast<size_t>(r.counts[0])];
        SequenceInstance carrier = kind.back();
        kind.pop_back();
        carrier.items.push_back(at.items[static_cast<size_t>(r.begin) + 1]);
        ReadSequence(r.first, carrier);
        if (r.second >= 0) ReadBranches(r.second, left);
        return;
      }
      default:
        FORETRACE_CHECK(false);
    }
  }

 private:
  void ReadBranches(int32_t index, std::vector<std::vector<SequenceInstance>>& left) {
    const PartRecord& r = solver_.record(index);
    if (r.kind == PartRecord::Kind::kSplit) {
      ReadBranches(r.first, left);
      if (r.second >= 0) ReadBranches(r.second, left);
    } else if (r.kind == PartRecord::Kind::kBranch) {
      auto& kind = left[static_cast<size_t>(r.counts[0])];
      const SequenceInstance branch = kind.back();
      kind.pop_back();
      ReadSequence(r.first, branch);
    } else {
      FORETRACE_CHECK(r.kind == PartRecord::Kind::kGroupStage);
      std::vector<int32_t> ops;
      for (size_t k = 0; k < left.size(); ++k) {
        for (int32_t i = 0; i < r.counts[k]; ++i) {
          for (const ItemInstance& item : left[k].back().items) CollectOps(item, ops);
          left[k].pop_back();
        }
      }
      AddStage(r, std::move(ops));
    }
  }

  void AddStage(const PartRecord& r, std::vector<int32_t> ops) {
    GraphPipeStage stage;
    std::sort(ops.begin(), ops.end());
    stage.ops = std::move(ops);
    stage.devices = r.devices;
    stage.config = solver_.config(r.config);
    plan_.stages.push_back(std::move(stage));
  }

  const GraphPipeSolver& solver_;
  GraphPipePlan& plan_;
};

// By the last of their operators in topological order, in which every dependency goes forward.
void SortStages(const OpGraph& graph, GraphPipePlan& plan) {
  std::vector<int32_t> position(static_cast<size_t>(graph.size()));
  for (size_t i = 0; i < position.size(); ++i) {
    position[static_cast<size_t>(graph.topological_order()[i])] = static_cast<int32_t>(i);
  }
  const auto last_of = [&](const GraphPipeStage& s) {
    int32_t last = 0;
    for (const int32_t op : s.ops) last = std::max(last, position[static_cast<size_t>(op)]);
    return last;
  };
  std::sort(plan.stages.begin(), plan.stages.end(),
            [&](const auto& a, const auto& b) { return last_of(a) < last_of(b); });
}

// Edges between stages, in-flight counts from the last stage back, costs from the true borders.
void Complete(const GraphPipeProblem& p, GraphPipePlan& plan) {
  std::vector<int32_t> stage_of(p.ops.size(), -1);
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    for (const int32_t op : plan.stages[s].ops) {
      stage_of[static_cast<size_t>(op)] = static_cast<int32_t>(s);
    }
  }
  std::vector<StageLoad> loads(plan.stages.size());
  std::vector<std::set<int32_t>> successors(plan.stages.size());
  for (const GraphPipeEdge& e : p.edges) {
    const int32_t from = stage_of[static_cast<size_t>(e.from)];
    const int32_t to = stage_of[static_cast<size_t>(e.to)];
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
      stage.in_flight_samples =
          std::max(stage.in_flight_samples,
                   ComputeInFlight(stage.config, n.config, n.in_flight_samples));
      depth[s] = std::max(depth[s], depth[static_cast<size_t>(next)] + 1);
    }
    StageLoad& load = loads[s];
    for (const int32_t op : stage.ops) {
      const GraphPipeOp& o = p.ops[static_cast<size_t>(op)];
      load.seconds.resize(o.forward_s.size(), 0.0);
      for (size_t i = 0; i < load.seconds.size(); ++i) {
        load.seconds[i] += o.forward_s[i] + o.backward_s[i];
      }
      load.fixed_bytes += o.fixed_bytes;
      load.gradient_bytes += o.gradient_bytes;
      load.stash_bytes += o.stash_bytes;
    }
    stage.time_per_sample_s = internal::TimePerSample(p, load, stage.config, stage.devices);
    stage.memory_bytes = internal::StageMemory(load, stage.in_flight_samples, stage.devices);
    plan.bottleneck_s = std::max(plan.bottleneck_s, stage.time_per_sample_s);
    plan.depth = std::max(plan.depth, depth[s]);
    plan.devices += stage.devices;
  }
}

absl::Status Simulate(const GraphPipeProblem& p, GraphPipePlan& plan) {
  const TimedPipeline pipeline = TimedPipelineOf(p, plan);
  FORETRACE_ASSIGN_OR_RETURN(const PipelineTiming timing, TimePipeline(pipeline));
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    double gradient = 0;
    for (const int32_t op : plan.stages[s].ops) {
      gradient += p.ops[static_cast<size_t>(op)].gradient_bytes;
    }
    const int32_t d = plan.stages[s].devices;
    plan.iteration_s = std::max(plan.iteration_s, timing.stage_end[s].seconds() +
                                                      2.0 * (d - 1) / d * gradient / p.bandwidth);
  }
  return absl::OkStatus();
}

// The best plan over one set of configurations, added to `best` if its iteration is shorter.
absl::Status SearchConfigs(const GraphPipeProblem& p, GraphPipeModel& model, const OpGraph& graph,
                           std::vector<StageConfig> configs, GraphPipePlan& best) {
  GraphPipeSolver solver(p, model, std::move(configs));
  const double work = model.SequenceWork(model.root(), 0);
  const double floor = work / p.devices;
  if (floor * p.mini_batch >= best.iteration_s) return absl::OkStatus();
  const auto read = [&](const internal::Front& front) {
    // Fewest samples in flight at the source is the shallowest pipeline.
    const auto entry = std::min_element(front.begin(), front.end(), [](const auto& a, const auto& b) {
      return a.offset != b.offset ? a.offset < b.offset : a.devices < b.devices;
    });
    GraphPipePlan plan;
    plan.linearised = model.linearised();
    PlanReader(solver, plan).ReadSequence(entry->record, model.instance());
    SortStages(graph, plan);
    Complete(p, plan);
    return plan;
  };
  double low = floor * (1 - 1e-9), high = kInfinity;
  GraphPipePlan found;
  for (double bound = 1.25 * floor; bound < 1e6 * floor; bound *= 2) {
    const internal::Front front = solver.Solve(bound);
    if (front.empty()) {
      low = bound;
      if (kOverlap * low * p.mini_batch >= best.iteration_s) return absl::OkStatus();
      continue;
    }
    found = read(front);
    high = std::min(bound, found.bottleneck_s);
    break;
  }
  if (!std::isfinite(high)) return absl::OkStatus();
  while (high - low > kTolerance * high &&
         kOverlap * low * p.mini_batch < best.iteration_s) {
    const double middle = low + (high - low) / 2;
    const internal::Front front = solver.Solve(middle);
    if (front.empty()) {
      low = middle;
    } else {
      found = read(front);
      high = std::min(middle, found.bottleneck_s);
    }
  }
  // The bottleneck alone ignores the time to fill the pipeline, so slightly slower but shallower
  // plans are simulated as well.
  for (const double slack : {1.0, 1.03, 1.1, 1.25, 1.6, 2.2}) {
    if (slack > 1) {
      const internal::Front front = solver.Solve(high * slack);
      if (front.empty()) continue;
      found = read(front);
    }
    if (kOverlap * found.bottleneck_s * p.mini_batch >= best.iteration_s) continue;
    FORETRACE_RETURN_IF_ERROR(Simulate(p, found));
    if (found.iteration_s < best.iteration_s) best = found;
  }
  return absl::OkStatus();
}

absl::Status Check(const GraphPipeProblem& p) {
  if (p.ops.empty()) return InvalidInput("graphpipe: the model has no operators");
  if (p.devices < 1 || p.devices > kMaxDevices || !(p.bandwidth > 0) || p.mini_batch < 1 ||
      !std::has_single_bit(static_cast<uint32_t>(p.mini_batch))) {
    return InvalidInput(
        "graphpipe: devices and bandwidth must be positive, the mini-batch a power of two");
  }
  const size_t sizes = p.ops[0].forward_s.size();
  for (const GraphPipeOp& op : p.ops) {
    if (sizes == 0 || sizes > 31 || op.forward_s.size() != sizes || op.backward_s.size() != sizes) {
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

}  // namespace

TimedPipeline TimedPipelineOf(const GraphPipeProblem& p, const GraphPipePlan& plan) {
  TimedPipeline pipeline;
  pipeline.mini_batch = p.mini_batch;
  std::vector<int32_t> stage_of(p.ops.size());
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const GraphPipeStage& stage = plan.stages[s];
    const int32_t b = stage.config.micro_batch;
    const int32_t samples = (b + stage.devices - 1) / stage.devices;
    double forward = 0, backward = 0;
    for (const int32_t op : stage.ops) {
      stage_of[static_cast<size_t>(op)] = static_cast<int32_t>(s);
      forward += internal::SecondsAt(p.ops[static_cast<size_t>(op)].forward_s, samples);
      backward += internal::SecondsAt(p.ops[static_cast<size_t>(op)].backward_s, samples);
    }
    const int64_t in_flight = (stage.in_flight_samples + b - 1) / b;
    const auto count = static_cast<int64_t>(p.mini_batch / b);
    pipeline.stages.push_back(
        {b, KFKBSchedule(p.mini_batch / b, stage.config.k, static_cast<int32_t>(std::min(in_flight, count))),
         {SimTime::FromSeconds(forward)}, {SimTime::FromSeconds(backward)}, {}});
  }
  std::map<std::pair<int32_t, int32_t>, double> bytes;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    for (const int32_t next : plan.stages[s].successors) bytes[{static_cast<int32_t>(s), next}];
  }
  for (const GraphPipeEdge& e : p.edges) {
    const int32_t from = stage_of[static_cast<size_t>(e.from)];
    const int32_t to = stage_of[static_cast<size_t>(e.to)];
    if (from != to) bytes[{from, to}] += e.bytes;
  }
  for (const auto& [ends, per_sample] : bytes) {
    const GraphPipeStage& from = plan.stages[static_cast<size_t>(ends.first)];
    const GraphPipeStage& to = plan.stages[static_cast<size_t>(ends.second)];
    // The side with fewer links bounds the transfer of one of its micro-batches.
    const int32_t transferred = std::max(from.config.micro_batch, to.config.micro_batch);
    const int32_t links = std::min(from.devices, to.devices);
    const SimTime time = SimTime::FromSeconds(per_sample * transferred / links / p.bandwidth);
    pipeline.edges.push_back({ends.first, 0, ends.second, 0, time, time});
  }
  return pipeline;
}

absl::StatusOr<GraphPipePlan> EvaluateStages(const GraphPipeProblem& problem,
                                             std::vector<GraphPipeStage> stages) {
  FORETRACE_RETURN_IF_ERROR(Check(problem));
  std::vector<std::pair<int32_t, int32_t>> edges;
  for (const GraphPipeEdge& e : problem.edges) edges.emplace_back(e.from, e.to);
  FORETRACE_ASSIGN_OR_RETURN(const OpGraph graph,
                             OpGraph::Create(static_cast<int32_t>(problem.ops.size()), edges));
  std::vector<int32_t> seen(problem.ops.size(), -1);
  for (size_t s = 0; s < stages.size(); ++s) {
    const GraphPipeStage& stage = stages[s];
    if (stage.ops.empty() || stage.devices < 1 || stage.config.micro_batch < stage.devices ||
        problem.mini_batch % stage.config.micro_batch != 0) {
      return InvalidInput("stage {}: no operators, or a micro-batch of {} on {} devices", s,
                          stage.config.micro_batch, stage.devices);
    }
    for (const int32_t op : stage.ops) {
      if (op < 0 || op >= graph.size() || seen[static_cast<size_t>(op)] >= 0) {
        return InvalidInput("C1: operator {} is in two stages, or does not exist", op);
      }
      seen[static_cast<size_t>(op)] = static_cast<int32_t>(s);
    }
  }
  for (const GraphPipeEdge& e : problem.edges) {
    if (seen[static_cast<size_t>(e.from)] > seen[static_cast<size_t>(e.to)]) {
      return InvalidInput("C2: operator {} feeds {} in an earlier stage", e.from, e.to);
    }
  }
  if (std::count(seen.begin(), seen.end(), -1) > 0) {
    return InvalidInput("C1: the stages leave operators out");
  }
  GraphPipePlan plan;
  plan.stages = std::move(stages);
  Complete(problem, plan);
  for (const GraphPipeStage& stage : plan.stages) {
    if (stage.memory_bytes > problem.memory_bytes) {
      return Infeasible("a stage needs {:.2f} GiB of {:.2f}", stage.memory_bytes / (1 << 30),
                        problem.memory_bytes / (1 << 30));
    }
  }
  FORETRACE_RETURN_IF_ERROR(Simulate(problem, plan));
  return plan;
}

absl::StatusOr<GraphPipePlan> PartitionGraphPipe(const GraphPipeProblem& problem) {
  FORETRACE_RETURN_IF_ERROR(Check(problem));
  std::vector<std::pair<int32_t, int32_t>> edges;
  for (const GraphPipeEdge& e : problem.edges) edges.emplace_back(e.from, e.to);
  FORETRACE_ASSIGN_OR_RETURN(const OpGraph graph,
                             OpGraph::Create(static_cast<int32_t>(problem.ops.size()), edges));
  std::vector<int32_t> sizes = problem.micro_batches;
  if (sizes.empty()) {
    for (int32_t b = 1; b <= problem.mini_batch; b *= 2) sizes.push_back(b);
  }
  std::sort(sizes.rbegin(), sizes.rend());
  GraphPipePlan best;
  best.iteration_s = kInfinity;
  for (const bool linear : {false, true}) {
    if (problem.sequential && !linear) continue;
    GraphPipeModel model(problem, graph, linear);
    std::vector<StageConfig> all;
    for (const int32_t b : sizes) {
      std::vector<StageConfig> configs;
      for (const int32_t k : problem.k) {
        if (k <= problem.mini_batch / b) configs.push_back({b, k});
      }
      all.insert(all.end(), configs.begin(), configs.end());
      if (problem.uniform_micro_batch) {
        FORETRACE_RETURN_IF_ERROR(SearchConfigs(problem, model, graph, configs, best));
      }
    }
    if (!problem.uniform_micro_batch) {
      FORETRACE_RETURN_IF_ERROR(SearchConfigs(problem, model, graph, all, best));
    }
  }
  if (best.stages.empty()) {
    return Infeasible(
        "graphpipe: no stage graph on {} devices fits in {:.2f} GiB each; more devices or memory, "
        "or smaller micro-batches would help",
        problem.devices, problem.memory_bytes / (1 << 30));
  }
  return best;
}

}  // namespace foretrace
