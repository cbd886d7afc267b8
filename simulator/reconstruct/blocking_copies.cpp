#include "simulator/reconstruct/blocking_copies.h"

#include <algorithm>

#include "simulator/reconstruct/clock_noise.h"

namespace foretrace {
namespace {

// Calls of copies take less, and return from one within that of its end.
constexpr SimTime kLong = SimTime::FromNs(100'000);

bool CanHold(const RankTrace& rank, NodeIndex call, NodeIndex copy) {
  const RuntimeCall how = rank.runtime_call(call);
  const MemcpyKind kind = rank.memcpy_kind(copy);
  const bool on_devices = kind == MemcpyKind::kDeviceToDevice || kind == MemcpyKind::kPeerToPeer;
  return !on_devices && (how == RuntimeCall::kMemcpySync || how == RuntimeCall::kMemcpyAsync);
}

bool HoldsByDocument(const RankTrace& rank, Bytes staged_copy, NodeIndex call, NodeIndex copy) {
  const MemcpyKind kind = rank.memcpy_kind(copy);
  if (rank.runtime_call(call) == RuntimeCall::kMemcpySync) return true;
  if (kind == MemcpyKind::kDeviceToHostPageable) return true;
  if (kind != MemcpyKind::kHostToDevicePageable) return false;
  const WorkAttr* work = rank.work(copy);
  return work != nullptr && work->bytes > staged_copy;
}

enum class Evidence : uint8_t { kNone, kReturnedBefore, kWaited };

// A staged copy to the device returns when its last piece lies in the staging buffer, which the
// device may still be reading: it did not wait only if it returned before the copy began. `busy`:
// until when the copy's stream did what was before it; a call that a profiler's start or the
// driver made long ends with a copy that began at once.
Evidence EvidenceOf(const RankTrace& rank, NodeIndex call, NodeIndex copy, SimTime busy) {
  if (!rank.has_duration(call) || !rank.has_duration(copy)) return Evidence::kNone;
  const bool staged = rank.memcpy_kind(copy) == MemcpyKind::kHostToDevicePageable;
  const SimTime waited_for = staged ? rank.start(copy) : rank.end(copy);
  if (rank.end(call) + kClockNoise < waited_for) return Evidence::kReturnedBefore;
  const bool long_after = busy > rank.start(call) + kLong || rank.duration(copy) > kLong;
  const bool right_after = rank.end(call) - rank.end(copy) < kClockNoise;
  return !staged && long_after && right_after ? Evidence::kWaited : Evidence::kNone;
}

}  // namespace

BlockingCopies::BlockingCopies(const RankTrace& rank, Bytes staged_copy)
    : holds_(rank.size(), false) {
  const auto for_each_copy = [&](auto&& visit) {
    std::vector<SimTime> busy(rank.lanes().size(), SimTime::Min());
    for (uint32_t i = 0; i < rank.size(); ++i) {
      const NodeIndex node(i);
      if (!IsDeviceKind(rank.kind(node)) || !rank.has_duration(node)) continue;
      SimTime& until = busy[rank.lane(node).value];
      const SimTime before = until;
      until = std::max(until, rank.end(node));
      const NodeIndex call = rank.launcher(node);
      if (rank.kind(node) != NodeKind::kMemcpy || !call.valid() || !CanHold(rank, call, node)) {
        continue;
      }
      const MemcpyKind kind = rank.memcpy_kind(node);
      const bool by_document = HoldsByDocument(rank, staged_copy, call, node);
      if (!by_document && kind == MemcpyKind::kHostToDevicePageable) continue;  // in its buffer
      visit(call, by_document, EvidenceOf(rank, call, node, before),
            counts_[Class(rank.runtime_call(call), kind)]);
    }
  };
  for_each_copy([](NodeIndex, bool by_document, Evidence evidence, Count& count) {
    if (!by_document && evidence == Evidence::kNone) return;
    ++count.calls;
    count.returned_before += evidence == Evidence::kReturnedBefore ? 1 : 0;
    count.waited += evidence == Evidence::kWaited ? 1 : 0;
  });
  for_each_copy([this](NodeIndex call, bool by_document, Evidence evidence, const Count& count) {
    const bool as_most = by_document ? 2 * count.returned_before <= count.calls
                                     : count.waited > count.returned_before;
    holds_[call.value] = evidence == Evidence::kWaited || (evidence == Evidence::kNone && as_most);
  });
}

}  // namespace foretrace
