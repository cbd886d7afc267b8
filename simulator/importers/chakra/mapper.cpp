#include "simulator/importers/chakra/mapper.h"

#include <algorithm>
#include <array>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/utf8.h"
#include "simulator/importers/framework/device_names.h"
#include "simulator/importers/framework/process_groups.h"

namespace foretrace::chakra {
namespace {

// Streams of unplaced nodes.
constexpr int64_t kComputeStream = 0;
constexpr int64_t kMemoryStream = 1;
constexpr int64_t kSendStream = 2;
constexpr int64_t kRecvStream = 3;
constexpr int64_t kFirstGroupStream = 4;

constexpr int64_t kPsPerUs = 1'000'000;
// The builder refuses times over 2^61 ps; this keeps the conversion itself from overflowing.
constexpr int64_t kMaxMicros = (int64_t{1} << 62) / kPsPerUs;
// 73 years, in a clock that may count from 1970.
constexpr uint64_t kMaxOriginMicros = (uint64_t{1} << 61) / 1000;

bool LeavesOutDimension(const AttributeValue& involved) {
  std::vector<int64_t> dims;
  return DecodeIntegers(involved, dims) && std::find(dims.begin(), dims.end(), 0) != dims.end();
}

// Converted traces keep the names of the profiler they come from.
bool IsRuntimeCall(std::string_view name) {
  return name.starts_with("cuda") || name.starts_with("hip") || name.starts_with("cuLaunch");
}

}  // namespace

CollectiveOp CollectiveFromCommType(int64_t comm_type) {
  static constexpr std::array<CollectiveOp, 10> kOps = {
      CollectiveOp::kAllReduce, CollectiveOp::kReduce,        CollectiveOp::kAllGather,
      CollectiveOp::kGather,    CollectiveOp::kScatter,       CollectiveOp::kBroadcast,
      CollectiveOp::kAllToAll,  CollectiveOp::kReduceScatter, CollectiveOp::kReduceScatter,
      CollectiveOp::kBarrier};
  const bool known = comm_type >= 0 && comm_type < static_cast<int64_t>(kOps.size());
  return known ? kOps[static_cast<size_t>(comm_type)] : CollectiveOp::kUnknown;
}

void Mapper::Note(Repair repair, const Node& node, std::string_view what) {
  builder_.diagnostics().Add(repair, [&] {
    return fmt::format("{}: node {} ({}) {}", builder_.info().source, node.id,
                       Excerpt(node.name, 80), what);
  });
}

absl::Status Mapper::Read(const Node& node, Key key, std::optional<int64_t>& out) const {
  if (!node.has(key)) return absl::OkStatus();
  int64_t value = 0;
  if (!node[key].AsInteger(value)) {
    return InvalidInput("{}: node {} ({}): attribute {} is not a whole number",
                        builder_.info().source, node.id, Excerpt(node.name, 80),
                        AttributeName(key));
  }
  out = value;
  return absl::OkStatus();
}

LaneIndex Mapper::Stream(int64_t id, std::string_view label) {
  const LaneIndex lane = builder_.AddLane(Lane::Kind::kStream, id);
  builder_.SetLaneLabel(lane, std::string(label));
  return lane;
}

LaneIndex Mapper::FixedStream(int64_t id) {
  static constexpr std::array<std::string_view, kFirstGroupStream> kLabels = {"compute", "memory",
                                                                              "send", "recv"};
  LaneIndex& lane = fixed_streams_[static_cast<size_t>(id)];
  if (!lane.valid()) lane = Stream(id, kLabels[static_cast<size_t>(id)]);
  return lane;
}

LaneIndex Mapper::GroupStream(const Node& node) {
  const std::string_view name = node[Key::kGroup].bytes;
  const auto [it, inserted] = group_streams_.try_emplace(builder_.Intern(name));
  if (inserted) {
    const auto id = kFirstGroupStream + static_cast<int64_t>(group_streams_.size()) - 1;
    it->second =
        Stream(id, name.empty() ? "communication" : fmt::format("communication, group {}", name));
  }
  return it->second;
}

absl::StatusOr<Mapper::Placement> Mapper::Place(const Node& node, NodeType type,
                                                bool is_collective) {
  std::optional<int64_t> is_cpu_op;
  FORETRACE_RETURN_IF_ERROR(Read(node, Key::kIsCpuOp, is_cpu_op));
  std::optional<int64_t> thread;
  FORETRACE_RETURN_IF_ERROR(Read(node, Key::kThread, thread));
  std::optional<int64_t> stream;
  FORETRACE_RETURN_IF_ERROR(Read(node, Key::kStream, stream));
  const bool is_message = type == NodeType::kCommSend || type == NodeType::kCommRecv;
  Placement place;
  place.placed = thread.has_value() || stream.has_value();
  // The flag's default has turned communication into computation elsewhere: what has a peer or a
  // collective type is communication whatever the flag says.
  place.on_cpu =
      type == NodeType::kMetadata || (is_cpu_op.value_or(0) != 0 && !is_collective && !is_message);
  if (place.on_cpu) {
    place.lane = builder_.AddLane(Lane::Kind::kCpuThread, thread.value_or(0));
  } else if (place.placed) {
    // Older converters put the stream into tid.
    place.lane = builder_.AddLane(Lane::Kind::kStream, stream ? *stream : *thread);
  } else if (type == NodeType::kCommSend) {
    place.lane = FixedStream(kSendStream);
  } else if (type == NodeType::kCommRecv) {
    place.lane = FixedStream(kRecvStream);
  } else if (type == NodeType::kCommColl) {
    place.lane = GroupStream(node);
  } else if (type == NodeType::kMemLoad || type == NodeType::kMemStore) {
    place.lane = FixedStream(kMemoryStream);
  } else {
    place.lane = FixedStream(kComputeStream);
  }
  return place;
}

RankTraceBuilder::NodeSpec Mapper::Classify(const Node& node, NodeType type, bool is_collective,
                                            const Placement& placement) {
  RankTraceBuilder::NodeSpec spec;
  spec.name = node.name;
  spec.lane = placement.lane;
  spec.source_id = node.id;
  const auto detail = [&spec](auto value) { spec.detail = static_cast<uint8_t>(value); };
  if (placement.on_cpu) {
    spec.kind = type == NodeType::kMetadata ? NodeKind::kAnnotation : NodeKind::kCpuOp;
    if (placement.placed && spec.kind == NodeKind::kCpuOp && IsRuntimeCall(node.name)) {
      spec.kind = NodeKind::kRuntimeCall;
      detail(ParseRuntimeCall(node.name));
    }
    return spec;
  }
  switch (type) {
    case NodeType::kCommSend:
      spec.kind = NodeKind::kSend;
      break;
    case NodeType::kCommRecv:
      spec.kind = NodeKind::kRecv;
      break;
    case NodeType::kCommColl: {
      spec.kind = NodeKind::kCollective;
      int64_t comm_type = -1;
      CollectiveOp op = CollectiveOp::kUnknown;
      if (is_collective && node[Key::kCommType].AsInteger(comm_type)) {
        op = CollectiveFromCommType(comm_type);
        if (op == CollectiveOp::kUnknown) {
          Note(Repair::kUnknownCommType, node, fmt::format("has comm_type {}", comm_type));
        }
      }
      if (op == CollectiveOp::kUnknown) op = ParseCollectiveOp(node.name);
      detail(op);
      break;
    }
    case NodeType::kMemLoad:
      spec.kind = NodeKind::kMemcpy;
      detail(MemcpyKind::kHostToDevicePinned);
      break;
    case NodeType::kMemStore:
      spec.kind = NodeKind::kMemcpy;
      detail(MemcpyKind::kDeviceToHostPinned);
      break;
    default:
      if (node.name.starts_with("Memcpy ")) {
        spec.kind = NodeKind::kMemcpy;
        bool host_kind_known = true;
        detail(ParseMemcpyKind(node.name, host_kind_known));
      } else {
        spec.kind = node.name.starts_with("Memset") ? NodeKind::kMemset : NodeKind::kKernel;
      }
  }
  return spec;
}

absl::Status Mapper::AddTimes(const Node& node, const Placement& placement,
                              RankTraceBuilder::NodeSpec& spec) {
  uint64_t duration_us = node.duration_us;
  bool has_duration = duration_us > 0;
  if (!has_duration) {
    std::optional<int64_t> runtime;
    FORETRACE_RETURN_IF_ERROR(Read(node, Key::kRuntime, runtime));
    if (runtime) {
      duration_us = static_cast<uint64_t>(*runtime);
      has_duration = *runtime != 0;
    }
  }
  if (duration_us > static_cast<uint64_t>(kMaxMicros)) {
    return InvalidInput("{}: node {} ({}): duration of {} us is negative or out of range",
                        builder_.info().source, node.id, Excerpt(node.name, 80),
                        static_cast<int64_t>(duration_us));
  }
  // Converters cut durations to whole microseconds, so that a recorded one may read as none.
  if (has_duration || placement.placed || spec.kind == NodeKind::kAnnotation) {
    spec.duration = SimTime::FromPs(static_cast<int64_t>(duration_us) * kPsPerUs);
  }
  if (node.start_us == 0) return absl::OkStatus();
  has_starts_ = true;
  // Times are often since 1970: keep what is relative, and the origin for the job.
  if (!first_start_us_) {
    first_start_us_ = node.start_us;
    if (node.start_us > kMaxOriginMicros) {
      return InvalidInput("{}: node {} ({}): start of {} us is negative or out of range",
                          builder_.info().source, node.id, Excerpt(node.name, 80),
                          static_cast<int64_t>(node.start_us));
    }
  }
  const auto since_first = static_cast<int64_t>(node.start_us - *first_start_us_);
  if (since_first > kMaxMicros || since_first < -kMaxMicros) {
    return InvalidInput("{}: node {} ({}): start of {} us is over 26 days from the first node's",
                        builder_.info().source, node.id, Excerpt(node.name, 80), node.start_us);
  }
  spec.start = SimTime::FromPs(since_first * kPsPerUs);
  return absl::OkStatus();
}

absl::Status Mapper::AddComm(const Node& node, NodeType type, CollectiveOp op, NodeIndex index) {
  std::optional<int64_t> size;
  FORETRACE_RETURN_IF_ERROR(Read(node, Key::kCommSize, size));
  CommAttr comm;
  if (size && *size < 0) {
    return InvalidInput("{}: node {} ({}): comm_size is {}", builder_.info().source, node.id,
                        Excerpt(node.name, 80), *size);
  }
  if (!size && op != CollectiveOp::kBarrier) {
    Note(Repair::kMissingCommSize, node, "has no comm_size");
  }
  const Bytes bytes(size.value_or(0));
  if (type == NodeType::kCommColl) {
    if (!node.has(Key::kCommType)) {
      Note(Repair::kMissingCommType, node, "is a collective without comm_type");
    }
    // comm_size is the input of one rank. How much comes out of a gather or a scatter depends on
    // the group's size, which the file does not say.
    comm.bytes_in = bytes;
    if (op == CollectiveOp::kAllReduce || op == CollectiveOp::kAllToAll ||
        op == CollectiveOp::kBroadcast || op == CollectiveOp::kReduce) {
      comm.bytes_out = bytes;
    }
    // A group's number is text where producers keep to the schema; else it names no group.
    const std::string_view group = node[Key::kGroup].bytes;
    if (!group.empty()) {
      comm.group = builder_.Intern(group);
      uses_group_zero_ = uses_group_zero_ || group == "0";
    } else if (LeavesOutDimension(node[Key::kInvolvedDim])) {
      Note(Repair::kIgnoredInvolvedDim, node,
           "names its communicator by involved_dim only; taken as all ranks");
    }
  } else {
    const bool send = type == NodeType::kCommSend;
    (send ? comm.bytes_in : comm.bytes_out) = bytes;
    std::optional<int64_t> peer;
    FORETRACE_RETURN_IF_ERROR(Read(node, send ? Key::kCommDst : Key::kCommSrc, peer));
    std::optional<int64_t> tag;
    FORETRACE_RETURN_IF_ERROR(Read(node, Key::kCommTag, tag));
    if (!peer) Note(Repair::kMissingPeer, node, send ? "has no comm_dst" : "has no comm_src");
    if (peer.value_or(0) < 0 || peer.value_or(0) > INT32_MAX) {
      return InvalidInput("{}: node {} ({}): peer rank {} is out of range", builder_.info().source,
                          node.id, Excerpt(node.name, 80), *peer);
    }
    comm.peer = static_cast<int32_t>(peer.value_or(-1));
    comm.tag = static_cast<int32_t>(tag.value_or(0));
  }
  builder_.SetComm(index, comm);
  return absl::OkStatus();
}

absl::Status Mapper::AddWork(const Node& node, NodeIndex index) {
  if (!node.has(Key::kNumOps) && !node.has(Key::kTensorSize)) {
    return absl::OkStatus();
  }
  double flop = 0;
  node[Key::kNumOps].AsReal(flop);
  std::optional<int64_t> bytes;
  FORETRACE_RETURN_IF_ERROR(Read(node, Key::kTensorSize, bytes));
  // Negated, so that NaN is refused.
  if (!(flop >= 0 && flop < 1e30) || bytes.value_or(0) < 0) {
    return InvalidInput("{}: node {} ({}): num_ops {} or tensor_size {} is out of range",
                        builder_.info().source, node.id, Excerpt(node.name, 80), flop,
                        bytes.value_or(0));
  }
  builder_.SetWork(index, {Flop(flop), Bytes(bytes.value_or(0))});
  return absl::OkStatus();
}

void Mapper::AddDependencies(const Node& node, const Placement& placement, NodeIndex index) {
  for (const uint64_t producer : node.data_deps) {
    builder_.AddDependencyBySourceId(index, producer, DependencyKind::kData);
  }
  for (const uint64_t producer : node.ctrl_deps) {
    // Converters from PyTorch put the enclosing or launching op there, which a node does not wait
    // for; generators put what a node waits for.
    if (placement.placed) {
      builder_.AddIssuerBySourceId(index, producer);
    } else {
      builder_.AddDependencyBySourceId(index, producer, DependencyKind::kControl);
    }
  }
}

void Mapper::AddProcessGroups(const Node& node) {
  if (node.name.find("process_group") == std::string_view::npos) return;
  std::vector<ProcessGroup> groups;
  if (!ParseProcessGroups(node.input_values, groups)) {
    Note(Repair::kUnreadableProcessGroups, node, "declares process groups that are not readable");
  }
  for (ProcessGroup& group : groups) builder_.AddProcessGroup(std::move(group));
}

absl::Status Mapper::Add(const Node& node) {
  if (node.type > static_cast<uint64_t>(NodeType::kCommColl)) {
    return InvalidInput("{}: node {} ({}): unknown node type {}; Chakra v0.0.4 has 1 to 7",
                        builder_.info().source, node.id, Excerpt(node.name, 80), node.type);
  }
  auto type = static_cast<NodeType>(node.type);
  if (type == NodeType::kInvalid) {
    Note(Repair::kInvalidNodeType, node, "has no type; taken as metadata");
    type = NodeType::kMetadata;
  }
  const bool is_collective = type == NodeType::kCommColl && node.has(Key::kCommType);
  FORETRACE_ASSIGN_OR_RETURN(const Placement placement, Place(node, type, is_collective));
  RankTraceBuilder::NodeSpec spec = Classify(node, type, is_collective, placement);
  FORETRACE_RETURN_IF_ERROR(AddTimes(node, placement, spec));
  const NodeIndex index = builder_.AddNode(spec);
  if (placement.on_cpu) {
    if (type == NodeType::kMetadata) AddProcessGroups(node);
    // The CPU side of a collective; its device side is a node of its own.
    if (type == NodeType::kCommColl) {
      Note(Repair::kMissingCommType, node, "is a collective on the CPU without comm_type");
    }
  } else {
    if (IsCommunicationKind(spec.kind)) {
      FORETRACE_RETURN_IF_ERROR(AddComm(node, type, static_cast<CollectiveOp>(spec.detail), index));
    }
    FORETRACE_RETURN_IF_ERROR(AddWork(node, index));
  }
  if (node.unknown_attributes > 0) {
    builder_.diagnostics().Add(
        Repair::kUnknownAttribute,
        [&] {
          return fmt::format("{}: node {} has attribute \"{}\"", builder_.info().source, node.id,
                             Excerpt(node.unknown_attribute, 80));
        },
        node.unknown_attributes);
  }
  AddDependencies(node, placement, index);
  return absl::OkStatus();
}

void Mapper::Finish() {
  // By convention group "0" is everyone; a declaration in the file was added before and wins.
  if (first_start_us_) {
    builder_.info().origin_ns = static_cast<int64_t>(*first_start_us_) * 1000;
  }
  if (uses_group_zero_) builder_.AddProcessGroup({"0", "all ranks", {}});
}

}  // namespace foretrace::chakra
