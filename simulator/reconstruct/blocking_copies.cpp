#include "simulator/reconstruct/blocking_copies.h"

#include "simulator/reconstruct/clock_noise.h"

namespace foretrace {
namespace {

bool HoldsByDocument(const RankTrace& rank, Bytes staged_copy, NodeIndex call, NodeIndex copy) {
  const RuntimeCall how = rank.runtime_call(call);
  const MemcpyKind kind = rank.memcpy_kind(copy);
  const bool on_devices = kind == MemcpyKind::kDeviceToDevice || kind == MemcpyKind::kPeerToPeer;
  if (how == RuntimeCall::kMemcpySync) return !on_devices;
  if (how != RuntimeCall::kMemcpyAsync) return false;
  if (kind == MemcpyKind::kDeviceToHostPageable) return true;
  if (kind != MemcpyKind::kHostToDevicePageable) return false;
  const WorkAttr* work = rank.work(copy);
  return work != nullptr && work->bytes > staged_copy;
}

// A staged copy to the device returns when its last piece lies in the staging buffer, which the
// device may still be reading: it did not wait only if it returned before the copy began.
bool ReturnedBefore(const RankTrace& rank, NodeIndex call, NodeIndex copy) {
  if (!rank.has_duration(call) || !rank.has_duration(copy)) return false;
  const bool staged = rank.memcpy_kind(copy) == MemcpyKind::kHostToDevicePageable;
  const SimTime waited_for = staged ? rank.start(copy) : rank.end(copy);
  return rank.end(call) + kClockNoise < waited_for;
}

}  // namespace

BlockingCopies::BlockingCopies(const RankTrace& rank, Bytes staged_copy)
    : holds_(rank.size(), false) {
  const auto for_each_copy = [&](auto&& visit) {
    for (uint32_t i = 0; i < rank.size(); ++i) {
      const NodeIndex copy(i);
      if (rank.kind(copy) != NodeKind::kMemcpy) continue;
      const NodeIndex call = rank.launcher(copy);
      if (call.valid() && HoldsByDocument(rank, staged_copy, call, copy)) visit(call, copy);
    }
  };
  for_each_copy([&](NodeIndex call, NodeIndex copy) {
    Count& count = counts_[Class(rank.runtime_call(call), rank.memcpy_kind(copy))];
    ++count.calls;
    if (ReturnedBefore(rank, call, copy)) ++count.returned_before;
  });
  for_each_copy([&](NodeIndex call, NodeIndex copy) {
    const Count& count = counts_[Class(rank.runtime_call(call), rank.memcpy_kind(copy))];
    if (2 * count.returned_before > count.calls || ReturnedBefore(rank, call, copy)) return;
    holds_[call.value] = true;
  });
}

}  // namespace foretrace
