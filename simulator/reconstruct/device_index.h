#pragma once
// Look-ups between CPU calls, the ops around them and the device work that they issue.

#include <cstdint>
#include <span>
#include <vector>

#include "simulator/hardware/accelerator.h"
#include "simulator/reconstruct/blocking_copies.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

class DeviceIndex {
 public:
  // `driver`: of the device that the rank was recorded on.
  DeviceIndex(const RankTrace& rank, const TraceStore& store, const DriverLimits& driver);

  const StringPool& strings() const { return store_.strings(); }
  // Device nodes that a runtime call issued, in order of start; more than one for a graph launch.
  std::span<const NodeIndex> issued_by(NodeIndex call) const {
    return {issued_.data() + issued_begin_[call.value],
            issued_.data() + issued_begin_[call.value + 1]};
  }
  const DriverLimits& driver() const { return driver_; }
  // Whether a call holds its thread until the copy that it issued is done.
  bool HoldsUntilCopied(NodeIndex call) const { return blocking_copies_.Holds(call); }
  const BlockingCopies& blocking_copies() const { return blocking_copies_; }
  // Work that had been issued when the recording began: without a recorded launch, and before any
  // work of its stream that has one. In order of start.
  std::span<const NodeIndex> in_flight_at_start() const { return in_flight_; }
  // First and last device node issued from within a CPU op; invalid when none.
  NodeIndex first_of(NodeIndex op) const { return NodeIndex(first_[op.value]); }
  NodeIndex last_of(NodeIndex op) const { return NodeIndex(last_[op.value]); }
  // True when the node lies within a communication op that issues communication, as opposed to one
  // that only waits.
  bool within_issuing_comm_op(NodeIndex node) const;
  // True when the node lies within any communication op.
  bool within_comm_op(NodeIndex node) const;

 private:
  bool IsCommunicationOp(NodeIndex op) const {
    return store_.roles().of_op(rank_.kind(op), rank_.name(op)).communication;
  }

  const RankTrace& rank_;
  const TraceStore& store_;
  DriverLimits driver_;
  BlockingCopies blocking_copies_;
  std::vector<uint32_t> issued_begin_;
  std::vector<NodeIndex> issued_;
  std::vector<NodeIndex> in_flight_;
  std::vector<uint32_t> first_;
  std::vector<uint32_t> last_;
  std::vector<bool> issues_comm_;
};

}  // namespace foretrace
