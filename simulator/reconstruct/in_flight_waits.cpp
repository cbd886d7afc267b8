#include "simulator/reconstruct/in_flight_waits.h"

#include <algorithm>
#include <span>

#include "simulator/reconstruct/clock_noise.h"
#include "simulator/reconstruct/latencies.h"

namespace foretrace {
namespace {

constexpr SimTime kTight = SimTime::FromNs(10'000);
// A blocking call returns some microseconds after the end of what it waited for.
constexpr SimTime kTightReturn = SimTime::FromNs(30'000);
// No launch takes that long to reach an idle device; preparing a staged copy takes longer.
constexpr SimTime kLate = SimTime::FromNs(100'000);
constexpr SimTime kLateStaged = SimTime::FromNs(500'000);

class UnrecordedWaits {
 public:
  UnrecordedWaits(const RankTrace& rank, RankSync& sync) : rank_(rank), sync_(sync) {
    std::vector<bool> seen(rank.lanes().size(), false);
    for (uint32_t i = 0; i < rank.size(); ++i) {
      const NodeIndex n(i);
      if (!IsDeviceKind(rank.kind(n)) || !rank.has_duration(n)) continue;
      ends_.push_back(rank.end(n));
      if (seen[rank.lane(n).value]) continue;
      seen[rank.lane(n).value] = true;
      firsts_.push_back(n);
    }
    std::ranges::sort(ends_);
  }

  void Run(const std::vector<UnnamedWait>& before_recording) {
    if (firsts_.empty()) return;
    std::erase_if(sync_.held, [&](const HeldWait& h) {
      const bool named =
          std::ranges::binary_search(before_recording, h.call, {}, &UnnamedWait::call);
      if (!named && !IsUnrecorded(h.held)) return false;
      Keep(h);
      return true;
    });
    for (const NodeIndex first : firsts_) {
      const NodeIndex call = rank_.launcher(first);
      // When communication starts is for its peers to tell apart (FindAfterUnrecorded has the
      // rest).
      if (!call.valid() || IsCommunicationKind(rank_.kind(first))) continue;
      KeepIfLate(call, first, sync_.device_edges);
    }
    for (uint32_t i = 0; i < rank_.size(); ++i) {
      const NodeIndex n(i);
      if (rank_.start(n) > rank_.start(firsts_.back())) break;
      if (rank_.kind(n) != NodeKind::kRuntimeCall || !rank_.has_duration(n)) continue;
      if (IsSynchronize(rank_.runtime_call(n))) KeepIfLate(n, n, sync_.block_edges);
    }
  }

 private:
  bool Blocks(NodeIndex held) const { return rank_.kind(held) == NodeKind::kRuntimeCall; }
  SimTime WentOn(NodeIndex held) const {
    return Blocks(held) ? rank_.end(held) : rank_.start(held);
  }

  // Went on when the device had not yet begun all that was issued before, and nothing recorded had
  // just ended that it can have waited for.
  bool IsUnrecorded(NodeIndex held) const {
    const bool blocks = Blocks(held);
    // A call that is known to wait for recorded work returns when that is done.
    if (blocks && !EdgesOf(sync_.block_edges, held).empty()) return false;
    const SimTime at = WentOn(held);
    if (at > sync_.before_is_done + kClockNoise) return false;
    if (at > rank_.start(firsts_.back()) + (blocks ? kTightReturn : kTight)) return false;
    const SimTime latest = at + (blocks ? kClockNoise : kClockResolution);
    const auto next = std::ranges::upper_bound(ends_, latest);
    return next == ends_.begin() || at - *(next - 1) > (blocks ? kTightReturn : kTight);
  }

  void KeepIfLate(NodeIndex call, NodeIndex held, const std::vector<SyncEdge>& edges) {
    SimTime explained = rank_.start(call);
    for (const SyncEdge& e : EdgesOf(edges, held)) {
      explained = std::max(explained, rank_.end(e.producer));
    }
    const LaunchClass how = Blocks(held) ? LaunchClass::kKernel : LaunchClassOf(rank_, held);
    const bool staged =
        how == LaunchClass::kCopyFromPageable || how == LaunchClass::kCopyToPageable;
    const SimTime late = WentOn(held) - explained;
    if (late > (staged ? kLateStaged : kLate) && IsUnrecorded(held)) Keep({call, held, late});
  }

  void Keep(const HeldWait& wait) {
    const bool known = std::ranges::any_of(
        sync_.after_unrecorded, [&](const HeldWait& kept) { return kept.held == wait.held; });
    if (!known) sync_.after_unrecorded.push_back(wait);
  }

  const RankTrace& rank_;
  RankSync& sync_;
  std::vector<SimTime> ends_;      // of all device work, ascending
  std::vector<NodeIndex> firsts_;  // of each stream, in order of start
};

}  // namespace

SimTime WorkOfBeforeIsDone(const RankTrace& rank) {
  SimTime begin = SimTime::Max(), longest, lag;
  for (uint32_t i = 0; i < rank.size(); ++i) {
    const NodeIndex n(i);
    if (rank.kind(n) == NodeKind::kRuntimeCall) begin = std::min(begin, rank.start(n));
    if (!IsDeviceKind(rank.kind(n)) || !rank.has_duration(n)) continue;
    begin = std::min(begin, rank.start(n));
    longest = std::max(longest, rank.duration(n));
    if (const NodeIndex call = rank.launcher(n); call.valid()) {
      lag = std::max(lag, rank.start(n) - rank.start(call));
    }
  }
  return begin == SimTime::Max() ? SimTime() : begin + lag + longest;
}

bool AddInFlightWaits(const RankTrace& rank, const DeviceIndex& index,
                      const std::vector<HeldWait>& held, EarlierEvents& earlier) {
  std::vector<NodeIndex> work(index.in_flight_at_start().begin(), index.in_flight_at_start().end());
  std::stable_sort(work.begin(), work.end(),
                   [&](NodeIndex a, NodeIndex b) { return rank.end(a) < rank.end(b); });
  bool found = false;
  for (const HeldWait& wait : held) {
    const bool blocks = !IsDeviceKind(rank.kind(wait.held));
    const SimTime begun = blocks ? rank.end(wait.held) : rank.start(wait.held);
    const auto ended_by = [&](SimTime at) {
      return std::upper_bound(work.begin(), work.end(), at,
                              [&](SimTime t, NodeIndex n) { return t < rank.end(n); });
    };
    auto next = ended_by(begun + kClockResolution);
    // Calls return after what they waited for, but for what the clocks of CPU and device differ by.
    if (blocks && (next == work.begin() || begun - rank.end(*(next - 1)) > kTightReturn)) {
      next = ended_by(begun + kClockNoise);
    }
    if (next == work.begin()) continue;
    const NodeIndex last = *(next - 1);
    if (begun - rank.end(last) > (blocks ? kTightReturn : kTight)) continue;
    if (rank.end(last) <= rank.start(wait.call)) continue;  // had ended before anything waited
    if (!blocks && rank.lane(last) == rank.lane(wait.held)) continue;
    earlier.edges.push_back({wait.held, last, SyncRule::kEarlierEvent});
    if (blocks) earlier.decided.push_back(wait.held);
    found = true;
  }
  SortEdges(earlier.edges);
  std::ranges::sort(earlier.decided);
  return found;
}

void KeepUnrecordedWaits(const RankTrace& rank, const std::vector<UnnamedWait>& before_recording,
                         RankSync& sync) {
  UnrecordedWaits(rank, sync).Run(before_recording);
}

}  // namespace foretrace
