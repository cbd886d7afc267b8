#include "simulator/mapping/trace_emitter.h"

#include <utility>

#include <fmt/format.h>

namespace foretrace {

TraceEmitter::TraceEmitter(RankInfo info, const GenerateOptions& options, DType dtype)
    : options_(options),
      dtype_(dtype),
      builder_(std::move(info)),
      compute_(builder_.AddLane(Lane::Kind::kStream, 7)),
      network_(builder_.AddLane(Lane::Kind::kStream, 20)) {
  builder_.SetLaneLabel(compute_, "compute");
  builder_.SetLaneLabel(network_, "communication");
  if (options_.launch > SimTime()) {
    cpu_ = builder_.AddLane(Lane::Kind::kCpuThread, 1);
    builder_.SetLaneLabel(cpu_, "launches");
  }
}

std::string TraceEmitter::AddGroup(const std::string& kind, const std::vector<int32_t>& ranks) {
  std::string name = fmt::format("{}_{}", kind, ranks.front());
  builder_.AddProcessGroup({name, kind, ranks});
  return name;
}

NodeIndex TraceEmitter::Add(RankTraceBuilder::NodeSpec spec) {
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
    if (last_call_.valid()) builder_.AddDependency(call, last_call_, DependencyKind::kControl);
    last_call_ = call;
  }
  spec.source_id = ++ids_;
  const NodeIndex node = builder_.AddNode(spec);
  if (call.valid()) {
    builder_.SetLauncher(node, call);
    builder_.AddDependency(node, call, DependencyKind::kControl);
  }
  return node;
}

NodeIndex TraceEmitter::Compute(const std::string& name, SimTime duration, NodeIndex also) {
  return Compute(name, duration,
                 also.valid() ? std::vector<NodeIndex>{also} : std::vector<NodeIndex>{});
}

NodeIndex TraceEmitter::Compute(const std::string& name, SimTime duration,
                                const std::vector<NodeIndex>& also) {
  RankTraceBuilder::NodeSpec spec;
  spec.kind = NodeKind::kKernel;
  spec.name = name;
  spec.lane = compute_;
  spec.duration = duration;
  const NodeIndex node = Add(spec);
  // Program order of the stream: a trace without times has no other.
  if (last_.valid()) builder_.AddDependency(node, last_, DependencyKind::kControl);
  for (const NodeIndex other : also) builder_.AddDependency(node, other, DependencyKind::kData);
  return last_ = node;
}

NodeIndex TraceEmitter::Communicate(const Message& m, NodeIndex after, NodeIndex also) {
  RankTraceBuilder::NodeSpec spec;
  spec.kind = m.kind;
  if (m.kind == NodeKind::kCollective) spec.detail = static_cast<uint8_t>(m.op);
  spec.name = m.name;
  spec.lane = network_;
  if (options_.communication_durations) spec.duration = m.duration;
  const NodeIndex node = Add(spec);
  CommAttr comm;
  comm.group = builder_.Intern(m.group);
  if (m.kind != NodeKind::kRecv) comm.bytes_in = m.bytes;
  if (m.kind != NodeKind::kSend) comm.bytes_out = m.bytes;
  if (m.op == CollectiveOp::kAllGather && m.kind == NodeKind::kCollective) {
    comm.bytes_in = Bytes(m.bytes.count() / m.group_size);
  }
  if (m.op == CollectiveOp::kReduceScatter && m.kind == NodeKind::kCollective) {
    comm.bytes_out = Bytes(m.bytes.count() / m.group_size);
  }
  comm.peer = m.peer;
  comm.tag = m.tag;
  comm.dtype = dtype_;
  comm.group_size = m.group_size;
  builder_.SetComm(node, comm);
  if (after.valid()) builder_.AddDependency(node, after, DependencyKind::kData);
  if (also.valid()) builder_.AddDependency(node, also, DependencyKind::kData);
  return node;
}

absl::StatusOr<RankTraceBuilder::Result> TraceEmitter::Build() {
  RankTraceBuilder::Options options;
  options.sort_by_start = false;
  options.infer_nesting = false;
  return builder_.Build(options);
}

}  // namespace foretrace
