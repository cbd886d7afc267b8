#include "simulator/reconstruct/blocking_copies.h"

#include <algorithm>
#include <map>
#include <utility>

#include "simulator/base/statistics.h"
#include "simulator/reconstruct/call_paths.h"
#include "simulator/reconstruct/clock_noise.h"
#include "simulator/reconstruct/end_spread.h"

namespace foretrace {
namespace {

// Calls of copies take less, where none shows what they take without waiting.
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

// A call of a copy, and until when the copy's stream did what was before it.
struct Call {
  NodeIndex call;
  NodeIndex copy;
  SimTime busy;
  bool by_document = false;
  uint64_t place = 0;  // of the program

  // A staged copy to the device returns when its last piece lies in the staging buffer, which the
  // device may still be reading: it did not wait only if it returned before the copy began.
  bool ReturnedBefore(const RankTrace& rank) const {
    return rank.end(call) + kClockNoise < (Staged(rank) ? rank.start(copy) : rank.end(copy));
  }

  // A call that a profiler's start or the driver made long ends with a copy that began at once.
  // `longest`: what calls take that do not wait.
  bool Waited(const RankTrace& rank, SimTime longest) const {
    const bool long_after = busy > rank.start(call) + longest || rank.duration(copy) > longest;
    return !Staged(rank) && long_after && rank.end(call) - rank.end(copy) < kClockNoise;
  }

 private:
  bool Staged(const RankTrace& rank) const {
    return rank.memcpy_kind(copy) == MemcpyKind::kHostToDevicePageable;
  }
};

std::vector<Call> CallsOf(const RankTrace& rank, const StringPool& strings, Bytes staged_copy) {
  std::vector<Call> calls;
  CallPaths paths(rank, strings);
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
    const bool by_document = HoldsByDocument(rank, staged_copy, call, node);
    if (!by_document && rank.memcpy_kind(node) == MemcpyKind::kHostToDevicePageable) {
      continue;  // in its buffer
    }
    calls.push_back({call, node, before, by_document, paths.Of(rank.parent(call))});
  }
  return calls;
}

// What nearly all calls take that did not wait, by more than a clock's noise.
SimTime LongestWithoutWaiting(const RankTrace& rank, const std::vector<Call>& calls) {
  std::vector<double> took;
  for (const Call& c : calls) {
    if (!rank.has_duration(c.call) || !c.ReturnedBefore(rank)) continue;
    took.push_back(rank.duration(c.call).us());
  }
  if (took.size() < kEnoughForSpread) return kLong;
  return std::min(kLong, SimTime::FromUs(Quantile(std::move(took), 0.9)) + kClockNoise);
}

}  // namespace

BlockingCopies::BlockingCopies(const RankTrace& rank, const StringPool& strings, Bytes staged_copy)
    : holds_(rank.size(), false) {
  const std::vector<Call> calls = CallsOf(rank, strings, staged_copy);
  const SimTime longest = LongestWithoutWaiting(rank, calls);
  const auto evidence_of = [&](const Call& c) {
    if (!rank.has_duration(c.call)) return Evidence::kNone;
    if (c.ReturnedBefore(rank)) return Evidence::kReturnedBefore;
    return c.Waited(rank, longest) ? Evidence::kWaited : Evidence::kNone;
  };
  const auto class_of = [&](const Call& c) {
    return Class(rank.runtime_call(c.call), rank.memcpy_kind(c.copy));
  };
  std::map<std::pair<size_t, uint64_t>, Count> by_place;
  for (const Call& c : calls) {
    const Evidence evidence = evidence_of(c);
    if (!c.by_document && evidence == Evidence::kNone) continue;
    for (Count* count : {&counts_[class_of(c)], &by_place[{class_of(c), c.place}]}) {
      ++count->calls;
      count->returned_before += evidence == Evidence::kReturnedBefore ? 1 : 0;
      count->waited += evidence == Evidence::kWaited ? 1 : 0;
    }
  }
  for (const Call& c : calls) {
    const Evidence evidence = evidence_of(c);
    const auto found = by_place.find({class_of(c), c.place});
    const Count& shown = found == by_place.end() ? counts_[class_of(c)] : found->second;
    const bool as_most = c.by_document ? 2 * shown.returned_before <= shown.calls
                                       : shown.waited > shown.returned_before;
    holds_[c.call.value] =
        evidence == Evidence::kWaited || (evidence == Evidence::kNone && as_most);
  }
}

}  // namespace foretrace
