#include <algorithm>
#include <vector>

#include "simulator/reconstruct/earlier_events.h"
#include "simulator/reconstruct/wait_sites.h"

namespace foretrace {

std::vector<HeldWait> FindHeldWaits(const RankTrace& rank, const DeviceIndex& index,
                                    const IssueOrder& order, const std::vector<UnnamedWait>& waits,
                                    const std::vector<SyncEdge>& device_edges,
                                    const std::vector<SyncEdge>& block_edges) {
  std::vector<HeldWait> held;
  if (waits.empty()) return held;
  const StreamQueues queues(rank);
  const WaitTargets targets(rank, index, order, queues, waits, device_edges, block_edges);
  for (uint32_t w = 0; w < waits.size(); ++w) {
    for (const Target& t : targets.Of(w)) {
      if (t.held && !queues.DeviceIsFull(t.consumer))
        held.push_back({waits[w].call, t.consumer, t.begun - t.explained});
    }
  }
  // Of several waits before one piece of work the last is named.
  std::stable_sort(held.begin(), held.end(),
                   [](const HeldWait& a, const HeldWait& b) { return a.held < b.held; });
  std::vector<HeldWait> once;
  for (const HeldWait& h : held) {
    if (!once.empty() && once.back().held == h.held) {
      once.back() = h;
    } else {
      once.push_back(h);
    }
  }
  return once;
}

std::vector<HeldWait> FindAfterUnrecorded(const RankTrace& rank,
                                          const std::vector<SyncEdge>& device_edges) {
  constexpr SimTime kLate = SimTime::FromNs(1'000'000);
  std::vector<HeldWait> late;
  std::vector<bool> seen(rank.lanes().size(), false);
  SimTime busy_until = SimTime::Min();  // of all work that started before
  for (uint32_t i = 0; i < rank.size(); ++i) {
    const NodeIndex n(i);
    if (!IsDeviceKind(rank.kind(n)) || !rank.has_duration(n)) continue;
    const NodeIndex call = rank.launcher(n);
    if (!seen[rank.lane(n).value] && call.valid()) {
      SimTime explained = std::max(rank.start(call), busy_until);
      for (const SyncEdge& e : EdgesOf(device_edges, n)) {
        explained = std::max(explained, rank.end(e.producer));
      }
      if (rank.start(n) - explained > kLate) late.push_back({call, n, rank.start(n) - explained});
    }
    seen[rank.lane(n).value] = true;
    busy_until = std::max(busy_until, rank.end(n));
  }
  return late;
}

}  // namespace foretrace
