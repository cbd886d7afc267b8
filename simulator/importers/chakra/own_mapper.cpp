#include "simulator/importers/chakra/own_mapper.h"

#include <algorithm>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/utf8.h"

namespace foretrace::chakra {
namespace {

// How many values the detail column can take on a node of that kind.
size_t DetailCount(NodeKind kind) {
  switch (kind) {
    case NodeKind::kRuntimeCall:
      return static_cast<size_t>(RuntimeCall::kCount);
    case NodeKind::kMemcpy:
      return static_cast<size_t>(MemcpyKind::kCount);
    case NodeKind::kCollective:
      return static_cast<size_t>(CollectiveOp::kCount);
    default:
      return 256;
  }
}

bool Within(int64_t value, size_t count) {
  return value >= 0 && static_cast<uint64_t>(value) < count;
}

bool FitsInt32(int64_t value) { return value >= INT32_MIN && value <= INT32_MAX; }

}  // namespace

OwnMapper::OwnMapper(RankTraceBuilder& builder, OwnMetadata metadata)
    : builder_(builder), metadata_(std::move(metadata)) {
  RankInfo& info = builder_.info();
  info.rank = metadata_.rank;
  info.world_size = metadata_.world_size;
  info.producer = metadata_.producer;
  info.device_name = metadata_.device_name;
  info.has_times = metadata_.has_times;
  info.origin_ns = metadata_.origin_ns;
  info.synthetic = metadata_.synthetic;
  for (const Lane& lane : metadata_.lanes) {
    lanes_.push_back(builder_.AddLane(lane.kind, lane.id, lane.device));
    builder_.SetLaneLabel(lanes_.back(), lane.label);
  }
  for (ProcessGroup& group : metadata_.process_groups) {
    builder_.AddProcessGroup(std::move(group));
  }
}

absl::Status OwnMapper::Malformed(const Node& node, const char* name) const {
  return InvalidInput("{}: node {} ({}): attribute {} is malformed or out of range",
                      builder_.info().source, node.id, Excerpt(node.name, 80), name);
}

absl::StatusOr<const std::vector<int64_t>*> OwnMapper::List(const Node& node,
                                                            const AttributeValue& value,
                                                            const char* name) {
  list_.clear();
  if (value.kind != AttributeValue::Kind::kNone && !DecodeIntegers(value, list_)) {
    return Malformed(node, name);
  }
  return &list_;
}

NodeIndex OwnMapper::Reference(uint64_t row) {
  greatest_reference_ = std::max(greatest_reference_, row);
  return NodeIndex(static_cast<uint32_t>(row));
}

absl::Status OwnMapper::Add(const Node& node) {
  if (node.id != builder_.size()) {
    return InvalidInput(
        "{}: node {} ({}): ids must count up from 0 in the order of the file; "
        "expected {}",
        builder_.info().source, node.id, Excerpt(node.name, 80), builder_.size());
  }
  if (builder_.size() >= NodeIndex::kNone - 1) {
    return InvalidInput("{}: more nodes than 32 bits can number", builder_.info().source);
  }
  return AddRow(node);
}

absl::Status OwnMapper::AddRow(const Node& node) {
  FORETRACE_ASSIGN_OR_RETURN(const auto* row, List(node, node[Key::kNode], "foretrace.node"));
  const auto at = [row](size_t i) { return i < row->size() ? (*row)[i] : 0; };
  RankTraceBuilder::NodeSpec spec;
  if (row->empty() || !Within(at(0), static_cast<size_t>(NodeKind::kCount))) {
    return Malformed(node, "foretrace.node");
  }
  spec.kind = static_cast<NodeKind>(at(0));
  const int64_t parent = at(5);
  const int64_t launcher = at(6);
  if (!Within(at(1), DetailCount(spec.kind)) || !Within(at(2), lanes_.size()) || at(4) < 0 ||
      !Within(parent, NodeIndex::kNone) || !Within(launcher, NodeIndex::kNone)) {
    return Malformed(node, "foretrace.node");
  }
  spec.detail = static_cast<uint8_t>(at(1));
  spec.name = node.name;
  spec.lane = lanes_[static_cast<size_t>(at(2))];
  const bool on_stream = metadata_.lanes[static_cast<size_t>(at(2))].kind == Lane::Kind::kStream;
  if (IsDeviceKind(spec.kind) != on_stream) return Malformed(node, "foretrace.node");
  spec.start = SimTime::FromPs(at(3));
  if (at(4) > 0) spec.duration = SimTime::FromPs(at(4) - 1);
  spec.source_id = static_cast<uint64_t>(at(7));
  const NodeIndex index = builder_.AddNode(spec);
  if (parent > 0) builder_.SetParent(index, Reference(static_cast<uint64_t>(parent - 1)));
  if (launcher > 0) builder_.SetLauncher(index, Reference(static_cast<uint64_t>(launcher - 1)));
  FORETRACE_RETURN_IF_ERROR(AddDependencies(node, index));
  if (node.has(Key::kComm)) {
    FORETRACE_RETURN_IF_ERROR(AddComm(node, index));
  }
  if (node.has(Key::kSync)) {
    FORETRACE_RETURN_IF_ERROR(AddSync(node, index));
  }
  if (node.has(Key::kLaunch)) {
    FORETRACE_RETURN_IF_ERROR(AddLaunch(node, index));
  }
  if (node.has(Key::kTensors)) {
    FORETRACE_RETURN_IF_ERROR(AddTensors(node, index));
  }
  if (node.has(Key::kWaves)) {
    int64_t waves = 0;
    if (!node[Key::kWaves].AsInteger(waves) || waves <= 0 || waves > UINT32_MAX) {
      return Malformed(node, "foretrace.waves");
    }
    builder_.SetWaves(index, static_cast<uint32_t>(waves));
  }
  double flop = 0;
  int64_t bytes = 0;
  const bool exact = node[Key::kFlop].AsReal(flop);
  if (exact || node[Key::kNumOps].AsReal(flop)) {
    if (node.has(Key::kTensorSize) && !node[Key::kTensorSize].AsInteger(bytes)) {
      return Malformed(node, "tensor_size");
    }
    // Negated, so that NaN is refused.
    if (!(flop >= 0 && flop < 1e30) || bytes < 0) return Malformed(node, "num_ops");
    builder_.SetWork(index, {Flop(flop), Bytes(bytes)});
  }
  return absl::OkStatus();
}

absl::Status OwnMapper::AddDependencies(const Node& node, NodeIndex index) {
  for (const uint64_t producer : node.data_deps) {
    if (producer >= NodeIndex::kNone) return Malformed(node, "data_deps");
    builder_.AddDependency(index, Reference(producer), DependencyKind::kData);
  }
  FORETRACE_ASSIGN_OR_RETURN(const auto* deps, List(node, node[Key::kDeps], "foretrace.deps"));
  if (deps->size() % 2 != 0) return Malformed(node, "foretrace.deps");
  for (size_t i = 0; i + 1 < deps->size(); i += 2) {
    const int64_t producer = (*deps)[i];
    const int64_t kind = (*deps)[i + 1];
    if (!Within(producer, NodeIndex::kNone) ||
        !Within(kind, static_cast<size_t>(DependencyKind::kCount))) {
      return Malformed(node, "foretrace.deps");
    }
    builder_.AddDependency(index, Reference(static_cast<uint64_t>(producer)),
                           static_cast<DependencyKind>(kind));
  }
  return absl::OkStatus();
}

absl::Status OwnMapper::AddComm(const Node& node, NodeIndex index) {
  FORETRACE_ASSIGN_OR_RETURN(const auto* values, List(node, node[Key::kComm], "foretrace.comm"));
  if (values->size() != 7) return Malformed(node, "foretrace.comm");
  const std::vector<int64_t>& v = *values;
  if (v[0] < 0 || v[1] < 0 || !FitsInt32(v[2]) || !FitsInt32(v[3]) ||
      !Within(v[4], static_cast<size_t>(DType::kCount)) || v[5] < 0 || !FitsInt32(v[5])) {
    return Malformed(node, "foretrace.comm");
  }
  CommAttr comm;
  comm.bytes_in = Bytes(v[0]);
  comm.bytes_out = Bytes(v[1]);
  comm.peer = static_cast<int32_t>(v[2]);
  comm.tag = static_cast<int32_t>(v[3]);
  comm.dtype = static_cast<DType>(v[4]);
  comm.group_size = static_cast<int32_t>(v[5]);
  comm.sequence = v[6];
  // pg_name is the number of the group for readers that want one; comm_group its own name. An
  // inferred group is not the node's.
  const AttributeValue& group = node[node.has(Key::kCommGroup) ? Key::kCommGroup : Key::kGroup];
  if (group.kind == AttributeValue::Kind::kText && !node.has(Key::kInferred))
    comm.group = builder_.Intern(group.bytes);
  splits_in_.clear();
  splits_out_.clear();
  const auto read = [](const AttributeValue& value, std::vector<int64_t>& out) {
    return value.kind == AttributeValue::Kind::kNone || DecodeIntegers(value, out);
  };
  if (!read(node[Key::kSplitsIn], splits_in_) || splits_in_.size() > UINT16_MAX) {
    return Malformed(node, "foretrace.splits_in");
  }
  if (!read(node[Key::kSplitsOut], splits_out_) || splits_out_.size() > UINT16_MAX) {
    return Malformed(node, "foretrace.splits_out");
  }
  builder_.SetComm(index, comm, splits_in_, splits_out_);
  return absl::OkStatus();
}

absl::Status OwnMapper::AddSync(const Node& node, NodeIndex index) {
  FORETRACE_ASSIGN_OR_RETURN(const auto* v, List(node, node[Key::kSync], "foretrace.sync"));
  if (v->size() != 4 || !Within((*v)[1], lanes_.size() + 1) ||
      !Within((*v)[3], lanes_.size() + 1)) {
    return Malformed(node, "foretrace.sync");
  }
  SyncAttr sync;
  sync.event = (*v)[0];
  if ((*v)[1] > 0) sync.stream = lanes_[static_cast<size_t>((*v)[1] - 1)];
  sync.waits_for_correlation = (*v)[2];
  if ((*v)[3] > 0) sync.waits_for_stream = lanes_[static_cast<size_t>((*v)[3] - 1)];
  builder_.SetSync(index, sync);
  return absl::OkStatus();
}

absl::Status OwnMapper::AddLaunch(const Node& node, NodeIndex index) {
  FORETRACE_ASSIGN_OR_RETURN(const auto* v, List(node, node[Key::kLaunch], "foretrace.launch"));
  const auto is_size = [](int64_t size) { return size > 0 && size <= UINT32_MAX; };
  LaunchAttr launch;
  const size_t along = launch.grid.size();
  if (v->size() != 2 * along || !std::ranges::all_of(*v, is_size)) {
    return Malformed(node, "foretrace.launch");
  }
  for (size_t i = 0; i < along; ++i) {
    launch.grid[i] = static_cast<uint32_t>((*v)[i]);
    launch.block[i] = static_cast<uint32_t>((*v)[along + i]);
  }
  builder_.SetLaunch(index, launch);
  return absl::OkStatus();
}

absl::Status OwnMapper::AddTensors(const Node& node, NodeIndex index) {
  FORETRACE_ASSIGN_OR_RETURN(const auto* list,
                             List(node, node[Key::kTensors], "foretrace.tensors"));
  const std::vector<int64_t>& v = *list;
  constexpr size_t kHead = 5;  // id, storage, dtype, is_output, number of dimensions
  for (size_t i = 0; i < v.size();) {
    if (v.size() - i < kHead || !Within(v[i + 2], static_cast<size_t>(DType::kCount)) ||
        !Within(v[i + 4], std::min<size_t>(v.size() - i - kHead, UINT16_MAX) + 1)) {
      return Malformed(node, "foretrace.tensors");
    }
    Tensor tensor;
    tensor.id = v[i];
    tensor.storage = v[i + 1];
    tensor.dtype = static_cast<DType>(v[i + 2]);
    tensor.is_output = v[i + 3] != 0;
    const auto dims = static_cast<size_t>(v[i + 4]);
    builder_.AddTensor(index, tensor, std::span(v).subspan(i + kHead, dims));
    i += kHead + dims;
  }
  return absl::OkStatus();
}

absl::Status OwnMapper::Finish() {
  if (metadata_.nodes >= 0 && metadata_.nodes != builder_.size()) {
    return InvalidInput("{}: truncated: the file declares {} nodes and holds {}",
                        builder_.info().source, metadata_.nodes, builder_.size());
  }
  for (const auto& [number, row] : metadata_.iterations) {
    if (row < 0 || row >= builder_.size()) {
      return InvalidInput("{}: iteration {} is marked by node {}, which is not in the file",
                          builder_.info().source, number, row);
    }
    builder_.AddIteration(number, NodeIndex(static_cast<uint32_t>(row)));
  }
  if (builder_.size() > 0 && greatest_reference_ >= builder_.size()) {
    return InvalidInput("{}: a node refers to node {}, which is not in the file",
                        builder_.info().source, greatest_reference_);
  }
  return absl::OkStatus();
}

}  // namespace foretrace::chakra
