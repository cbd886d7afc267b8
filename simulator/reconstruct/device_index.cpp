#include "simulator/reconstruct/device_index.h"

#include <numeric>

namespace foretrace {
namespace {

// Ops nest a few levels deep; hostile input may nest further than is useful to follow.
constexpr int kMaxDepth = 64;

}  // namespace

DeviceIndex::DeviceIndex(const RankTrace& rank, const TraceStore& store, const DriverLimits& driver)
    : rank_(rank),
      store_(store),
      driver_(driver),
      blocking_copies_(rank, store.strings(), driver.staged_copy) {
  const uint32_t nodes = rank.size();
  issued_begin_.assign(nodes + 1, 0);
  first_.assign(nodes, NodeIndex::kNone);
  last_.assign(nodes, NodeIndex::kNone);
  issues_comm_.assign(nodes, false);
  for (uint32_t i = 0; i < nodes; ++i) {
    const NodeIndex call = rank.launcher(NodeIndex(i));
    if (call.valid()) ++issued_begin_[call.value + 1];
  }
  std::partial_sum(issued_begin_.begin(), issued_begin_.end(), issued_begin_.begin());
  issued_.resize(issued_begin_.back());
  std::vector<uint32_t> fill(issued_begin_.begin(), issued_begin_.end() - 1);
  for (uint32_t i = 0; i < nodes; ++i) {
    const NodeIndex call = rank.launcher(NodeIndex(i));
    if (call.valid()) issued_[fill[call.value]++] = NodeIndex(i);
  }
  std::vector<bool> launched(rank.lanes().size(), false);
  for (uint32_t i = 0; i < nodes; ++i) {
    const NodeIndex n(i);
    if (!IsDeviceKind(rank.kind(n)) || !rank.has_duration(n)) continue;
    const uint32_t stream = rank.lane(n).value;
    launched[stream] = launched[stream] || rank.launcher(n).valid();
    if (!launched[stream]) in_flight_.push_back(n);
  }
  // Calls in order, so that "first" and "last" are in order of issue.
  for (uint32_t i = 0; i < nodes; ++i) {
    for (const NodeIndex device : issued_by(NodeIndex(i))) {
      const bool comm = IsCommunicationKind(rank.kind(device));
      NodeIndex op = rank.parent(NodeIndex(i));
      for (int depth = 0; op.valid() && depth < kMaxDepth; ++depth, op = rank.parent(op)) {
        if (first_[op.value] == NodeIndex::kNone) first_[op.value] = device.value;
        last_[op.value] = device.value;
        if (comm && IsCommunicationOp(op)) issues_comm_[op.value] = true;
      }
    }
  }
}

bool DeviceIndex::within_issuing_comm_op(NodeIndex node) const {
  NodeIndex op = rank_.parent(node);
  for (int depth = 0; op.valid() && depth < kMaxDepth; ++depth, op = rank_.parent(op)) {
    if (issues_comm_[op.value]) return true;
  }
  return false;
}

bool DeviceIndex::within_comm_op(NodeIndex node) const {
  NodeIndex op = rank_.parent(node);
  for (int depth = 0; op.valid() && depth < kMaxDepth; ++depth, op = rank_.parent(op)) {
    if (IsCommunicationOp(op)) return true;
  }
  return false;
}

}  // namespace foretrace
