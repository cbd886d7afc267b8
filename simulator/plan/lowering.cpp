#include "simulator/plan/lowering.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <utility>

#include "simulator/base/check.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/trace/builder.h"

namespace foretrace {
namespace {

// Where the devices of a plan are, and in which groups.
struct Layout {
  struct Place {
    int32_t stage = 0, device = 0;  // within the stage
  };
  std::vector<Place> of_rank;
  std::vector<std::vector<int32_t>> set_of;  // by group and rank; -1: in none
  size_t marks = 0;

  explicit Layout(const JobPlan& plan) {
    size_t count = 0;
    for (const PlannedStage& stage : plan.stages) count += stage.ranks.size();
    of_rank.resize(count);
    for (size_t s = 0; s < plan.stages.size(); ++s) {
      const PlannedStage& stage = plan.stages[s];
      for (size_t d = 0; d < stage.ranks.size(); ++d) {
        of_rank[static_cast<size_t>(stage.ranks[d])] = {static_cast<int32_t>(s),
                                                        static_cast<int32_t>(d)};
      }
      for (const PlanBody& body : stage.bodies) CountMarks(body);
      CountMarks(stage.end);
    }
    for (const DeviceGroups& group : plan.groups) {
      std::vector<int32_t> of(count, -1);
      for (size_t i = 0; i < group.sets.size(); ++i) {
        for (const int32_t rank : group.sets[i]) {
          of[static_cast<size_t>(rank)] = static_cast<int32_t>(i);
        }
      }
      set_of.push_back(std::move(of));
    }
  }

 private:
  void CountMarks(const PlanBody& body) {
    for (const PlanStep& step : body.steps) {
      marks = std::max(marks, static_cast<size_t>(step.mark + 1));
    }
  }
};

// Messages of one edge in one direction, as one device sends or receives them.
struct Messages {
  size_t edge = 0;
  bool forward = true, sends = false;
  int32_t chunk = 0;  // of this end
  int32_t unit = 1;   // samples in one
  std::vector<int32_t> peers;

  // Replicas that have samples in common exchange. Of a replica's devices, which have the same
  // tensors, the one of the receiver's place (modulo their number) sends.
  static std::vector<int32_t> PeersOf(const PlannedStage& own, int32_t device,
                                      const PlannedStage& other, bool sends) {
    std::vector<int32_t> peers;
    const auto replicas = [](const PlannedStage& stage) {
      return static_cast<int64_t>(stage.ranks.size()) / stage.tensor;
    };
    const int64_t mine = replicas(own), theirs = replicas(other);
    const int32_t replica = device / own.tensor, place = device % own.tensor;
    for (int32_t d = 0; d < theirs * other.tensor; ++d) {
      const int32_t r = d / other.tensor, at = d % other.tensor;
      if (r * mine >= (replica + 1) * theirs || replica * theirs >= (r + 1) * mine) continue;
      if (sends ? at % own.tensor != place : place % other.tensor != at) continue;
      peers.push_back(other.ranks[static_cast<size_t>(d)]);
    }
    return peers;
  }

  static std::vector<Messages> Of(const JobPlan& plan, const Layout::Place& at) {
    std::vector<Messages> all;
    const auto stage = [&](int32_t s) -> const PlannedStage& {
      return plan.stages[static_cast<size_t>(s)];
    };
    for (size_t i = 0; i < plan.edges.size(); ++i) {
      const TimedEdge& e = plan.edges[i].ends;
      const int32_t unit = std::max(stage(e.from).micro_batch, stage(e.to).micro_batch);
      for (const bool forward : {true, false}) {
        for (const bool sends : {true, false}) {
          const bool first = forward == sends;  // this end is the edge's first
          if ((first ? e.from : e.to) != at.stage) continue;
          all.push_back({i, forward, sends, first ? e.from_chunk : e.to_chunk, unit,
                         PeersOf(stage(at.stage), at.device, stage(first ? e.to : e.from), sends)});
        }
      }
    }
    return all;
  }
};

class DeviceWriter {
 public:
  DeviceWriter(const JobPlan& plan, const Layout& layout, const LoweringOptions& options,
               int32_t rank)
      : plan_(plan),
        layout_(layout),
        options_(options),
        rank_(static_cast<size_t>(rank)),
        stage_(plan.stages[static_cast<size_t>(layout.of_rank[rank_].stage)]),
        messages_(Messages::Of(plan, layout.of_rank[rank_])),
        builder_(Info(rank)),
        compute_(builder_.AddLane(Lane::Kind::kStream, 7)),
        network_(builder_.AddLane(Lane::Kind::kStream, 20)),
        marks_(layout.marks),
        chunks_(std::any_of(stage_.passes.begin(), stage_.passes.end(),
                            [](const Pass& p) { return p.chunk > 0; })) {
    builder_.SetLaneLabel(compute_, "compute");
    builder_.SetLaneLabel(network_, "communication");
    if (options_.launch > SimTime()) {
      cpu_ = builder_.AddLane(Lane::Kind::kCpuThread, 1);
      builder_.SetLaneLabel(cpu_, "launches");
    }
    AddGroups();
  }

  absl::StatusOr<RankTraceBuilder::Result> Write() {
    for (size_t i = 0; i < stage_.passes.size(); ++i) {
      WritePass(stage_.passes[i], stage_.bodies[stage_.body_of[i]]);
    }
    inputs_.clear();
    WriteSteps(stage_.end);
    RankTraceBuilder::Options options;
    options.sort_by_start = false;
    options.infer_nesting = false;
    return builder_.Build(options);
  }

 private:
  struct Group {
    StringId name;
    int32_t size = 0;
  };

  RankInfo Info(int32_t rank) const {
    RankInfo info;
    info.rank = rank;
    info.world_size = static_cast<int32_t>(layout_.of_rank.size());
    info.source = "generated: " + stage_.source;
    info.producer = plan_.producer;
    info.has_times = false;
    info.synthetic = true;
    return info;
  }

  void AddGroups() {
    for (size_t g = 0; g < plan_.groups.size(); ++g) {
      Group group;
      if (const int32_t set = layout_.set_of[g][rank_]; set >= 0) {
        const DeviceGroups& groups = plan_.groups[g];
        const std::vector<int32_t>& ranks = groups.sets[static_cast<size_t>(set)];
        const std::string name = fmt::format("{}_{}", groups.kind, ranks.front());
        builder_.AddProcessGroup({name, groups.kind, ranks});
        group = {builder_.Intern(name), static_cast<int32_t>(ranks.size())};
      }
      groups_.push_back(group);
    }
  }

  void NamePass(const Pass& pass) {
    pass_name_.clear();
    fmt::format_to(std::back_inserter(pass_name_), "{} micro-batch {}",
                   pass.kind == PassKind::kForward          ? "forward"
                   : pass.kind == PassKind::kBackwardWeight ? "weight gradient"
                                                            : "backward",
                   pass.microbatch);
    if (chunks_) fmt::format_to(std::back_inserter(pass_name_), " chunk {}", pass.chunk);
  }

  // Valid until the next one.
  std::string_view NameOf(const StepName& name) {
    if (!name.of_pass) return name.before;
    name_ = name.before;
    name_ += pass_name_;
    name_ += name.after;
    return name_;
  }

  // A node, after the CPU's call that launches it.
  NodeIndex Add(RankTraceBuilder::NodeSpec spec) {
    NodeIndex call;
    if (options_.launch > SimTime()) {
      RankTraceBuilder::NodeSpec launch;
      launch.kind = NodeKind::kRuntimeCall;
      launch.detail = static_cast<uint8_t>(RuntimeCall::kLaunchKernel);
      launch.name = "launch";
      launch.lane = cpu_;
      launch.duration = options_.launch;
      launch.source_id = ++ids_;
      call = builder_.AddNode(launch);
      Depend(call, last_call_, DependencyKind::kControl);
      last_call_ = call;
    }
    spec.source_id = ++ids_;
    const NodeIndex node = builder_.AddNode(spec);
    if (call.valid()) {
      builder_.SetLauncher(node, call);
      Depend(node, call, DependencyKind::kControl);
    }
    return node;
  }

  void Depend(NodeIndex node, NodeIndex producer, DependencyKind kind) {
    if (producer.valid()) builder_.AddDependency(node, producer, kind);
  }

  void Await(NodeIndex node, const AwaitedList& awaits) {
    for (const Awaited& a : awaits) {
      switch (a.kind) {
        case Awaited::Kind::kKernels:
          Depend(node, last_, DependencyKind::kData);
          break;
        case Awaited::Kind::kInputs:
          for (const NodeIndex input : inputs_) Depend(node, input, DependencyKind::kData);
          break;
        case Awaited::Kind::kStep:
          Depend(node, steps_[static_cast<size_t>(a.index)], DependencyKind::kData);
          break;
        case Awaited::Kind::kMark:
          // A body may await what no body of this device leaves.
          if (static_cast<size_t>(a.index) < marks_.size()) {
            Depend(node, marks_[static_cast<size_t>(a.index)], DependencyKind::kData);
          }
          break;
      }
    }
  }

  NodeIndex WriteKernel(const PlanStep& step) {
    RankTraceBuilder::NodeSpec spec;
    spec.kind = NodeKind::kKernel;
    spec.name = NameOf(step.name);
    spec.lane = compute_;
    spec.duration = step.duration;
    const NodeIndex node = Add(spec);
    // Program order of the stream: a trace without times has no other.
    Depend(node, last_, DependencyKind::kControl);
    Await(node, step.awaits);
    return last_ = node;
  }

  NodeIndex WriteExchange(const PlanStep& step) {
    const Group& group = groups_[static_cast<size_t>(step.group)];
    FORETRACE_CHECK(group.size > 1);
    RankTraceBuilder::NodeSpec spec;
    spec.kind = NodeKind::kCollective;
    spec.detail = static_cast<uint8_t>(step.op);
    CommAttr comm;
    comm.bytes_in = comm.bytes_out = step.bytes;
    const Bytes part(step.bytes.count() / group.size);
    if (step.op == CollectiveOp::kAllGather) comm.bytes_in = part;
    if (step.op == CollectiveOp::kReduceScatter) comm.bytes_out = part;
    const NodeIndex node = WriteCommunication(spec, NameOf(step.name), step.duration, group, comm);
    Await(node, step.awaits);
    if (step.holds) last_ = node;
    return node;
  }

  NodeIndex WriteCommunication(RankTraceBuilder::NodeSpec spec, std::string_view name,
                               SimTime duration, const Group& group, CommAttr comm) {
    spec.name = name;
    spec.lane = network_;
    if (options_.communication_durations) spec.duration = duration;
    const NodeIndex node = Add(spec);
    comm.group = group.name;
    comm.group_size = group.size;
    comm.dtype = plan_.dtype;
    builder_.SetComm(node, comm);
    return node;
  }

  // The pass's messages of one edge and direction. Tags tell edge, direction and message apart.
  void WriteMessages(const Messages& messages, const Pass& pass, const AwaitedList& awaits) {
    const bool sends = messages.sends;
    // One past the pass's last sample, in the message that holds it.
    const int64_t end = (int64_t{pass.microbatch} + 1) * stage_.micro_batch;
    const int64_t message = (end - 1) / messages.unit;
    // Of a message of several passes, the first needs it, and the last completes it.
    if (sends && end % messages.unit != 0) return;
    if (!sends && (end - stage_.micro_batch) % messages.unit != 0) return;
    const PlannedEdge& edge = plan_.edges[messages.edge];
    RankTraceBuilder::NodeSpec spec;
    spec.kind = sends ? NodeKind::kSend : NodeKind::kRecv;
    CommAttr comm;
    (sends ? comm.bytes_in : comm.bytes_out) = edge.bytes;
    comm.tag = static_cast<int32_t>(
        static_cast<int64_t>(messages.edge * 2 + (messages.forward ? 0 : 1)) * plan_.mini_batch +
        message);
    for (const int32_t peer : messages.peers) {
      comm.peer = peer;
      const NodeIndex node = WriteCommunication(
          spec, NameOf(OfPass(sends ? "send " : "recv ")),
          messages.forward ? edge.ends.forward_transfer : edge.ends.backward_transfer,
          groups_[static_cast<size_t>(plan_.links)], comm);
      Await(node, awaits);
      if (!sends) inputs_.push_back(node);
      if (sends && edge.holds) last_ = node;
    }
  }

  void WritePass(const Pass& pass, const PlanBody& body) {
    NamePass(pass);
    inputs_.clear();
    const bool forward = pass.kind == PassKind::kForward;
    const auto write = [&](bool sends, const AwaitedList& awaits) {
      if (pass.kind == PassKind::kBackwardWeight) return;
      for (const Messages& m : messages_) {
        if (m.sends == sends && m.forward == forward && m.chunk == pass.chunk) {
          WriteMessages(m, pass, awaits);
        }
      }
    };
    write(false, {});
    WriteSteps(body);
    write(true, body.output);
  }

  // Marks are left for later bodies.
  void WriteSteps(const PlanBody& body) {
    steps_.clear();
    for (const PlanStep& step : body.steps) {
      steps_.push_back(step.group == kNoGroup ? WriteKernel(step) : WriteExchange(step));
    }
    for (size_t i = 0; i < steps_.size(); ++i) {
      const int32_t mark = body.steps[i].mark;
      if (mark != kNoMark) marks_[static_cast<size_t>(mark)] = steps_[i];
    }
  }

  const JobPlan& plan_;
  const Layout& layout_;
  const LoweringOptions& options_;
  size_t rank_;
  const PlannedStage& stage_;
  std::vector<Messages> messages_;
  RankTraceBuilder builder_;
  LaneIndex compute_, network_, cpu_;
  std::vector<Group> groups_;
  std::string pass_name_, name_;
  NodeIndex last_, last_call_;     // of kernels, or what holds them up; of launches
  std::vector<NodeIndex> inputs_;  // of the pass
  std::vector<NodeIndex> steps_;   // of the body
  std::vector<NodeIndex> marks_;
  bool chunks_;  // the stage has several
  uint64_t ids_ = 0;
};

}  // namespace

absl::Status CheckNodes(double nodes, const std::string& name, const std::string& shorter) {
  if (nodes <= kMaxLoweredNodes) return absl::OkStatus();
  return Infeasible("{}: its traces would have {:.2g} nodes; the limit is {:.2g}. {} ones", name,
                    nodes, kMaxLoweredNodes, shorter);
}

absl::StatusOr<TraceStore> Lower(const JobPlan& plan, const LoweringOptions& options) {
  FORETRACE_RETURN_IF_ERROR(
      CheckNodes(plan.Nodes() * (options.launch > SimTime() ? 2 : 1), plan.name, plan.shorter));
  const Layout layout(plan);
  const auto devices = static_cast<int32_t>(layout.of_rank.size());
  std::vector<std::pair<RankTrace, std::unique_ptr<StringPool>>> traces;
  for (int32_t rank = 0; rank < devices; ++rank) {
    FORETRACE_ASSIGN_OR_RETURN(RankTraceBuilder::Result trace,
                               DeviceWriter(plan, layout, options, rank).Write());
    FORETRACE_CHECK(trace.diagnostics.empty());
    traces.emplace_back(std::move(trace.trace), std::move(trace.strings));
    if (options.progress) options.progress(rank + 1, devices);
    if (options.stop.stop_requested()) return absl::CancelledError("interrupted");
  }
  return TraceStore::Assemble(std::move(traces), {});
}

}  // namespace foretrace
