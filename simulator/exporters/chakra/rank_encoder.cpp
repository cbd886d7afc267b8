#include "simulator/exporters/chakra/rank_encoder.h"

#include <fmt/ranges.h>
#include <google/protobuf/io/coded_stream.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "simulator/base/utf8.h"
#include "simulator/exporters/chakra/wire_form.h"

namespace foretrace::chakra_wire {
namespace {

// Version of the foretrace.* attributes (docs/format.md). The importer has the same.
constexpr int64_t kOwnFormat = 1;
constexpr int64_t kPsPerUs = 1'000'000;

template <typename Message>
AttributeProto* Attribute(Message& message, const char* name) {
  AttributeProto* attribute = message.add_attr();
  attribute->set_name(name);
  return attribute;
}

}  // namespace

RankEncoder::RankEncoder(const TraceStore& store, const RankTrace& rank, const CommView& view,
                         Sink sink)
    : store_(store),
      rank_(rank),
      rank_index_(static_cast<uint32_t>(&rank - store.ranks().data())),
      view_(view),
      sink_(std::move(sink)) {}

void RankEncoder::Emit(const google::protobuf::MessageLite& message) {
  buffer_.clear();
  const size_t size = message.ByteSizeLong();
  uint8_t prefix[10];
  const uint8_t* end = google::protobuf::io::CodedOutputStream::WriteVarint64ToArray(size, prefix);
  buffer_.append(reinterpret_cast<const char*>(prefix), static_cast<size_t>(end - prefix));
  message.AppendToString(&buffer_);
  sink_(buffer_);
}

void RankEncoder::ComputeSelfTimes() {
  self_time_.assign(rank_.size(), SimTime());
  const auto on_cpu = [this](NodeIndex n) {
    return !IsDeviceKind(rank_.kind(n)) && rank_.has_duration(n);
  };
  for (uint32_t i = 0; i < rank_.size(); ++i) {
    const NodeIndex n(i);
    if (!rank_.has_duration(n)) continue;
    self_time_[i] += rank_.duration(n);
    const NodeIndex parent = rank_.parent(n);
    if (on_cpu(n) && parent.valid() && on_cpu(parent)) {
      self_time_[parent.value] -= rank_.duration(n);
    }
  }
}

void RankEncoder::EncodeAll() {
  ComputeSelfTimes();
  last_on_lane_.assign(rank_.lanes().size(), NodeIndex());
  EncodeMetadata();
  for (uint32_t n = 0; n < rank_.size(); ++n) EncodeNode(NodeIndex(n));
}

void RankEncoder::EncodeMetadata() {
  const RankInfo& info = rank_.info();
  GlobalMetadata metadata;
  metadata.set_version("0.0.4");
  Attribute(metadata, "foretrace.format")->set_int64_val(kOwnFormat);
  Attribute(metadata, "foretrace.rank")->set_int64_val(info.rank);
  Attribute(metadata, "foretrace.world_size")->set_int64_val(info.world_size);
  Attribute(metadata, "foretrace.nodes")->set_int64_val(rank_.size());
  Attribute(metadata, "foretrace.producer")->set_string_val(info.producer);
  if (!info.device_name.empty()) {
    Attribute(metadata, "foretrace.device")->set_string_val(info.device_name);
  }
  Attribute(metadata, "foretrace.has_times")->set_bool_val(info.has_times);
  Attribute(metadata, "foretrace.synthetic")->set_bool_val(info.synthetic);
  Attribute(metadata, "foretrace.origin_ns")->set_int64_val(info.origin_ns);
  Int64List* lanes = Attribute(metadata, "foretrace.lanes")->mutable_int64_list();
  StringList* labels = Attribute(metadata, "foretrace.lane_labels")->mutable_string_list();
  for (const Lane& lane : rank_.lanes()) {
    lanes->add_values(static_cast<int64_t>(lane.kind));
    lanes->add_values(lane.id);
    lanes->add_values(lane.device);
    labels->add_values(lane.label);
  }
  if (!rank_.iterations().empty()) {
    Int64List* marks = Attribute(metadata, "foretrace.iterations")->mutable_int64_list();
    for (const IterationMark& mark : rank_.iterations()) {
      marks->add_values(mark.number);
      marks->add_values(mark.node.value);
    }
  }
  EncodeProcessGroups(metadata);
  EncodeInferredGroups(metadata);
  Emit(metadata);
}

// Groups that only other tools see, with what they were found by.
void RankEncoder::EncodeInferredGroups(GlobalMetadata& metadata) const {
  for (const CommView::Group& group : view_.groups) {
    if (group.declared || !std::ranges::count(group.ranks, rank_.info().rank)) continue;
    StringList* texts = Attribute(metadata, "foretrace.inferred_group")->mutable_string_list();
    texts->add_values(std::to_string(group.number));
    texts->add_values(group.name);
    texts->add_values(std::string(Name(group.matched_by)));
  }
  if (rank_index_ != 0 || view_.doubts.empty()) return;
  StringList* doubts = Attribute(metadata, "foretrace.doubts")->mutable_string_list();
  for (const std::string& doubt : view_.doubts) doubts->add_values(ValidUtf8(doubt));
}

// What a user gave instead of a group that the rank declares.
const ProcessGroup& RankEncoder::ReplacementOf(const ProcessGroup& group) const {
  const std::span<const ProcessGroup> named = store_.process_groups().named(group.name);
  for (const ProcessGroup& other : named) {
    if (other.Has(rank_.info().rank)) return other;
  }
  return named.front();
}

// What the rank declares, as the job has it (a user may have replaced members), and, in the first
// rank's file, what only the job has.
void RankEncoder::EncodeProcessGroups(GlobalMetadata& metadata) {
  const ProcessGroups& job = store_.process_groups();
  const auto add = [&metadata](const ProcessGroup& group, const std::vector<int32_t>& ranks) {
    StringList* texts = Attribute(metadata, "foretrace.process_group")->mutable_string_list();
    texts->add_values(group.name);
    texts->add_values(group.description);
    if (ranks.empty()) return;
    Int64List* list = Attribute(metadata, "foretrace.group_ranks")->mutable_int64_list();
    for (const int32_t rank : ranks) list->add_values(rank);
  };
  for (const ProcessGroup& group : rank_.process_groups()) {
    const bool own = group.ranks.empty() || !job.contains(group.name) ||
                     job.Find(group.name, group.ranks) != nullptr;
    add(group, own ? group.ranks : ReplacementOf(group).ranks);
  }
  if (&rank_ != &store_.ranks().front()) return;
  for (const ProcessGroup& group : job) {
    const bool declared =
        std::any_of(store_.ranks().begin(), store_.ranks().end(), [&](const RankTrace& rank) {
          return std::any_of(rank.process_groups().begin(), rank.process_groups().end(),
                             [&](const ProcessGroup& g) { return g.name == group.name; });
        });
    if (!declared) add(group, group.ranks);
  }
}

// What has no partner in the files would be waited for without end.
NodeType RankEncoder::TypeOf(NodeIndex n) const {
  const CommView::Node* comm = view_.Find(rank_index_, n);
  return comm != nullptr && comm->partnered ? TypeInSchema(rank_, n) : COMP_NODE;
}

void RankEncoder::EncodeNode(NodeIndex n) {
  node_.Clear();
  node_.set_id(n.value);
  node_.set_name(std::string(store_.name(rank_, n)));
  node_.set_type(TypeOf(n));
  AddDependencies(n);
  AddTimes(n);
  AddPlacement(n);
  AddRow(n);
  AddWork(n);
  AddComm(n);
  AddTensors(n);
  Emit(node_);
  last_on_lane_[rank_.lane(n).value] = n;
}

void RankEncoder::AddDependencies(NodeIndex n) {
  std::vector<NodeIndex> control;
  Int64List others;
  for (const Dependency& d : rank_.dependencies(n)) {
    const bool visible = IsVisible(rank_, n, d.producer);
    if (d.kind == DependencyKind::kData && visible) {
      node_.add_data_deps(d.producer.value);
      continue;
    }
    if (visible) control.push_back(d.producer);
    others.add_values(d.producer.value);
    others.add_values(static_cast<int64_t>(d.kind));
  }
  if (others.values_size() > 0) {
    *Attribute(node_, "foretrace.deps")->mutable_int64_list() = std::move(others);
  }
  AddIssueOrder(rank_, n, last_on_lane_[rank_.lane(n).value], control);
  if (const CommView::Node* comm = view_.Find(rank_index_, n); comm != nullptr) {
    control.insert(control.end(), comm->after.begin(), comm->after.end());
  }
  std::sort(control.begin(), control.end());
  control.erase(std::unique(control.begin(), control.end()), control.end());
  for (const NodeIndex producer : control) {
    const auto& data = node_.data_deps();
    if (std::find(data.begin(), data.end(), producer.value) == data.end()) {
      node_.add_ctrl_deps(producer.value);
    }
  }
}

// Whole microseconds, at least one: sub-microsecond work cut to 0 would read as "unknown".
void RankEncoder::AddTimes(NodeIndex n) {
  if (!rank_.has_duration(n)) return;
  const int64_t self_ps = std::max<int64_t>(self_time_[n.value].ps(), 0);
  node_.set_duration_micros(
      static_cast<uint64_t>(std::max<int64_t>((self_ps + kPsPerUs - 1) / kPsPerUs, 1)));
  if (!rank_.info().has_times) return;
  const int64_t start_us = rank_.info().origin_ns / 1000 + rank_.start(n).ps() / kPsPerUs;
  node_.set_start_time_micros(static_cast<uint64_t>(std::max<int64_t>(start_us, 0)));
}

void RankEncoder::AddPlacement(NodeIndex n) {
  const Lane& lane = rank_.lane_at(rank_.lane(n));
  const bool on_cpu = lane.kind == Lane::Kind::kCpuThread;
  Attribute(node_, "is_cpu_op")->set_bool_val(on_cpu);
  Attribute(node_, on_cpu ? "tid" : "stream")->set_int64_val(lane.id);
}

void RankEncoder::AddRow(NodeIndex n) {
  const auto reference = [](NodeIndex to) { return to.valid() ? int64_t{to.value} + 1 : 0; };
  const int64_t row[] = {
      static_cast<int64_t>(rank_.kind(n)),
      rank_.raw_detail(n),
      rank_.lane(n).value,
      rank_.start(n).ps(),
      rank_.has_duration(n) ? rank_.duration(n).ps() + 1 : 0,
      reference(rank_.parent(n)),
      reference(rank_.launcher(n)),
      static_cast<int64_t>(rank_.source_id(n)),
  };
  size_t used = std::size(row);
  while (used > 1 && row[used - 1] == 0) --used;
  Int64List* list = Attribute(node_, "foretrace.node")->mutable_int64_list();
  for (size_t i = 0; i < used; ++i) list->add_values(row[i]);
  if (const SyncAttr* sync = rank_.sync(n)) {
    const auto lane = [](LaneIndex l) { return l.valid() ? int64_t{l.value} + 1 : 0; };
    Int64List* values = Attribute(node_, "foretrace.sync")->mutable_int64_list();
    values->add_values(sync->event);
    values->add_values(lane(sync->stream));
    values->add_values(sync->waits_for_correlation);
    values->add_values(lane(sync->waits_for_stream));
  }
}

void RankEncoder::AddWork(NodeIndex n) {
  if (const uint32_t waves = rank_.waves_milli(n); waves > 0) {
    Attribute(node_, "foretrace.waves")->set_int64_val(waves);
  }
  if (const LaunchAttr* launch = rank_.launch(n)) {
    Int64List* values = Attribute(node_, "foretrace.launch")->mutable_int64_list();
    for (const uint32_t size : launch->grid) values->add_values(size);
    for (const uint32_t size : launch->block) values->add_values(size);
  }
  const WorkAttr* work = rank_.work(n);
  if (work == nullptr) return;
  const double flop = work->flop.count();
  const double whole = std::clamp(std::round(flop), 0.0, 9e18);
  Attribute(node_, "num_ops")->set_int64_val(static_cast<int64_t>(whole));
  // Doubles hold whole numbers exactly up to here.
  if (whole != flop || flop > 0x1p53) Attribute(node_, "foretrace.flop")->set_double_val(flop);
  Attribute(node_, "tensor_size")->set_uint64_val(static_cast<uint64_t>(work->bytes.count()));
}

void RankEncoder::AddGroup(NodeIndex n, const CommAttr& comm) {
  const CommView::Node& node = *view_.Find(rank_index_, n);
  const std::string number = node.group.has_value() ? std::to_string(*node.group) : "";
  if (node.group.has_value()) Attribute(node_, "pg_name")->set_string_val(number);
  if (!comm.group.valid()) {
    if (node.group.has_value()) Attribute(node_, "foretrace.inferred")->set_bool_val(true);
    return;
  }
  const std::string_view name = store_.strings().Get(comm.group);
  if (!node.group.has_value() || number != name) {
    Attribute(node_, "foretrace.comm_group")->set_string_val(std::string(name));
  }
}

void RankEncoder::AddComm(NodeIndex n) {
  const CommAttr* comm = rank_.comm(n);
  if (comm == nullptr) return;
  const NodeType type = TypeOf(n);
  if (type == COMM_COLL_NODE) {
    Attribute(node_, "comm_type")->set_int64_val(CommType(rank_.collective_op(n)));
  } else if (type == COMM_SEND_NODE || type == COMM_RECV_NODE) {
    const bool send = type == COMM_SEND_NODE;
    Attribute(node_, send ? "comm_src" : "comm_dst")->set_int32_val(rank_.info().rank);
    Attribute(node_, send ? "comm_dst" : "comm_src")->set_int32_val(comm->peer);
    Attribute(node_, "comm_tag")->set_int32_val(comm->tag);
  }
  if (type != COMP_NODE) {
    Attribute(node_, "comm_size")->set_int64_val(view_.Find(rank_index_, n)->bytes.count());
  }
  AddGroup(n, *comm);
  Int64List* values = Attribute(node_, "foretrace.comm")->mutable_int64_list();
  values->add_values(comm->bytes_in.count());
  values->add_values(comm->bytes_out.count());
  values->add_values(comm->peer);
  values->add_values(comm->tag);
  values->add_values(static_cast<int64_t>(comm->dtype));
  values->add_values(comm->group_size);
  values->add_values(comm->sequence);
  const auto add_splits = [this](const char* name, std::span<const int64_t> splits) {
    if (splits.empty()) return;
    Int64List* list = Attribute(node_, name)->mutable_int64_list();
    for (const int64_t bytes : splits) list->add_values(bytes);
  };
  add_splits("foretrace.splits_in", rank_.in_splits(*comm));
  add_splits("foretrace.splits_out", rank_.out_splits(*comm));
}

void RankEncoder::AddTensors(NodeIndex n) {
  const auto tensors = rank_.tensors(n);
  if (tensors.empty()) return;
  Int64List* list = Attribute(node_, "foretrace.tensors")->mutable_int64_list();
  for (const Tensor& tensor : tensors) {
    list->add_values(tensor.id);
    list->add_values(tensor.storage);
    list->add_values(static_cast<int64_t>(tensor.dtype));
    list->add_values(tensor.is_output ? 1 : 0);
    const auto dims = rank_.dims(tensor);
    list->add_values(static_cast<int64_t>(dims.size()));
    for (const int64_t dim : dims) list->add_values(dim);
  }
}

}  // namespace foretrace::chakra_wire
