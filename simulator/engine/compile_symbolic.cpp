// Traces without times: items run when their dependencies allow, and what they cost comes from
// models.

#include <algorithm>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/engine/compile_rank.h"
#include "simulator/engine/lane_lists.h"

namespace foretrace {

void RankCompiler::CompileSymbolic() {
  RankProgram& program = out_.program;
  const LaneLists lanes(rank_,
                        [this](NodeIndex n) { return rank_.kind(n) != NodeKind::kAnnotation; });
  program.items.reserve(lanes.size());
  for (uint32_t l = 0; l < rank_.lanes().size(); ++l) {
    const std::span<const NodeIndex> nodes = lanes.of(LaneIndex(l));
    if (nodes.empty()) continue;
    LaneProgram lane;
    lane.lane = LaneIndex(l);
    lane.cpu = rank_.lanes()[l].kind == Lane::Kind::kCpuThread;
    lane.begin = static_cast<uint32_t>(program.items.size());
    lane.ready_order = true;
    lane.unlimited = IsCommunicationKind(rank_.kind(nodes.front()));
    const auto lane_index = static_cast<uint32_t>(program.lanes.size());
    for (const NodeIndex node : nodes) {
      Item item;
      item.node = node;
      item.lane = lane_index;
      item.kind = IsDeviceKind(rank_.kind(node)) ? ItemKind::kDevice : ItemKind::kCall;
      if (item.kind == ItemKind::kCall && rank_.has_duration(node)) {
        // Declared for the CPU: it stands as it is, for nothing in it can have waited.
        item.duration = rank_.duration(node);
      } else if (!IsCommunicationKind(rank_.kind(node))) {
        item.duration = DeviceDuration(node, item);
      }
      out_.item_of[node.value] = static_cast<uint32_t>(program.items.size());
      program.items.push_back(item);
    }
    lane.end = static_cast<uint32_t>(program.items.size());
    program.lanes.push_back(lane);
  }
  size_t waits = 0;
  for (uint32_t i = 0; i < rank_.size(); ++i) waits += rank_.dependencies(NodeIndex(i)).size();
  waits_.reserve(waits);
  for (uint32_t i = 0; i < rank_.size(); ++i) {
    const uint32_t consumer = out_.item_of[i];
    if (consumer == kNoItem) continue;
    for (const Dependency& d : rank_.dependencies(NodeIndex(i))) {
      const uint32_t producer = out_.item_of[d.producer.value];
      if (producer == kNoItem) continue;
      waits_.push_back(
          {consumer, {producer, LagTable::kZero, false, false, WaitCause::kDependency}});
    }
  }
}

absl::StatusOr<TransferSpec> TransferOf(const TraceStore& store,
                                        const MatchedCommunicator& communicator,
                                        const MatchedRendezvous& rendezvous) {
  const auto& first = rendezvous.members.front();
  const RankTrace& rank = store.ranks()[first.rank];
  TransferSpec spec;
  spec.point_to_point = rendezvous.point_to_point;
  spec.members = communicator.ranks;
  spec.op = rank.kind(first.node) == NodeKind::kCollective ? rank.collective_op(first.node)
                                                           : CollectiveOp::kSendRecv;
  if (spec.op == CollectiveOp::kUnknown) {
    return InvalidInput(
        "{}: {}: the collective's operation is not recorded, so its time cannot be "
        "modelled; replay recorded durations (--durations recorded)",
        rank.info().source, DescribeNode(store, rank, first.node));
  }
  Bytes bytes;
  for (const auto& m : rendezvous.members) {
    const CommAttr* attr = store.ranks()[m.rank].comm(m.node);
    if (attr == nullptr) continue;
    bytes = std::max({bytes, attr->bytes_in, attr->bytes_out});
    spec.dtype = attr->dtype;
  }
  if (bytes.count() == 0 && spec.op != CollectiveOp::kBarrier) {
    return InvalidInput(
        "{}: {}: the message size is not recorded, so its time cannot be modelled; "
        "replay recorded durations (--durations recorded)",
        rank.info().source, DescribeNode(store, rank, first.node));
  }
  spec.bytes = Bytes(bytes.count() / rendezvous.pieces);
  if (spec.op == CollectiveOp::kAllToAll && rendezvous.members.size() == spec.members.size()) {
    const size_t n = spec.members.size();
    std::vector<int64_t> splits(n * n, 0);
    bool complete = true;
    for (size_t i = 0; i < n && complete; ++i) {
      const RankTrace& member = store.ranks()[rendezvous.members[i].rank];
      const CommAttr* attr = member.comm(rendezvous.members[i].node);
      // Rows in the order of the group, as what they hold is.
      const auto row = std::ranges::find(spec.members, member.info().rank);
      complete = attr != nullptr && attr->in_splits == n && row != spec.members.end();
      if (!complete) break;
      const auto sent = member.in_splits(*attr);
      std::ranges::copy(sent,
                        splits.begin() + (row - spec.members.begin()) * static_cast<int64_t>(n));
    }
    if (complete) spec.split_bytes = std::move(splits);
  }
  return spec;
}

}  // namespace foretrace
