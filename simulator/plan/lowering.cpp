#include "simulator/plan/lowering.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "simulator/base/check.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/plan/plan_layout.h"
#include "simulator/trace/builder.h"

namespace foretrace {
namespace {

class DeviceWriter {
 public:
  DeviceWriter(const JobPlan& plan, const PlanLayout& layout, const LoweringOptions& options,
               int32_t rank)
      : plan_(plan),
        layout_(layout),
        options_(options),
        rank_(static_cast<size_t>(rank)),
        stage_(plan.stages[static_cast<size_t>(layout.of_rank[rank_].stage)]),
        messages_(MessagesOf(plan, layout.of_rank[rank_])),
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
    for (size_t i = 0; i < stage_.passes.size();) i += WritePasses(i);
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
    int32_t size = 0, place = 0;  // of this device among them
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
        const auto own = std::find(ranks.begin(), ranks.end(), static_cast<int32_t>(rank_));
        group = {builder_.Intern(name), static_cast<int32_t>(ranks.size()),
                 static_cast<int32_t>(own - ranks.begin())};
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
    const bool passes_on = step.op == CollectiveOp::kSendRecv;
    const NodeIndex node =
        WriteCommunication(spec, NameOf(step.name), step.duration, group, comm,
                           passes_on ? Only(group, group.place + 1, step.bytes) : Splits(),
                           passes_on ? Only(group, group.place - 1, step.bytes) : Splits());
    Await(node, step.awaits);
    if (step.holds) last_ = node;
    return node;
  }

  // Bytes by member of a group: of one, counted around.
  using Splits = std::vector<int64_t>;
  static Splits Only(const Group& group, int32_t member, Bytes bytes) {
    Splits splits(static_cast<size_t>(group.size), 0);
    splits[static_cast<size_t>((member + group.size) % group.size)] = bytes.count();
    return splits;
  }

  NodeIndex WriteCommunication(RankTraceBuilder::NodeSpec spec, std::string_view name,
                               SimTime duration, const Group& group, CommAttr comm,
                               const Splits& sent = {}, const Splits& received = {}) {
    spec.name = name;
    spec.lane = network_;
    if (options_.communication_durations) spec.duration = duration;
    const NodeIndex node = Add(spec);
    comm.group = group.name;
    comm.group_size = group.size;
    comm.dtype = plan_.dtype;
    builder_.SetComm(node, comm, sent, received);
    return node;
  }

  // The pass's messages of one edge and direction. Tags tell edge, direction and message apart.
  void WriteMessages(const EdgeMessages& messages, const Pass& pass, const AwaitedList& awaits) {
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

  const PlanBody& BodyOf(size_t pass) const { return stage_.bodies[stage_.body_of[pass]]; }

  // What the pass receives, or sends.
  void WriteAllMessages(size_t index, bool sends) {
    const Pass& pass = stage_.passes[index];
    if (pass.kind == PassKind::kBackwardWeight) return;
    const bool forward = pass.kind == PassKind::kForward;
    NamePass(pass);
    for (const EdgeMessages& m : messages_) {
      if (m.sends == sends && m.forward == forward && m.chunk == pass.chunk) {
        WriteMessages(m, pass, sends ? BodyOf(index).output : AwaitedList());
      }
    }
  }

  // Pass `first`, with the one beside it where it has one, which receives, runs and sends with it.
  // How many they are.
  size_t WritePasses(size_t first) {
    const size_t count = stage_.passes[first].paired ? 2 : 1;
    inputs_.clear();
    for (size_t i = first; i < first + count; ++i) WriteAllMessages(i, false);
    for (size_t i = first; i < first + count; ++i) {
      NamePass(stage_.passes[i]);
      WriteSteps(BodyOf(i));
    }
    for (size_t i = first; i < first + count; ++i) WriteAllMessages(i, true);
    return count;
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
  const PlanLayout& layout_;
  const LoweringOptions& options_;
  size_t rank_;
  const PlannedStage& stage_;
  std::vector<EdgeMessages> messages_;
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
  const PlanLayout layout(plan);
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
