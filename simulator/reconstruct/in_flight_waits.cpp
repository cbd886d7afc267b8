#include "simulator/reconstruct/in_flight_waits.h"

#include <algorithm>

#include "simulator/reconstruct/clock_noise.h"

namespace foretrace {
namespace {

constexpr SimTime kTight = SimTime::FromNs(10'000);
// A blocking call returns some microseconds after the end of what it waited for.
constexpr SimTime kTightReturn = SimTime::FromNs(30'000);

}  // namespace

bool AddInFlightWaits(const RankTrace& rank, const DeviceIndex& index,
                      const std::vector<HeldWait>& held, EarlierEvents& earlier) {
  std::vector<NodeIndex> work(index.in_flight_at_start().begin(), index.in_flight_at_start().end());
  std::stable_sort(work.begin(), work.end(),
                   [&](NodeIndex a, NodeIndex b) { return rank.end(a) < rank.end(b); });
  bool found = false;
  for (const HeldWait& wait : held) {
    const bool blocks = !IsDeviceKind(rank.kind(wait.held));
    const SimTime begun = blocks ? rank.end(wait.held) : rank.start(wait.held);
    const SimTime latest = begun + (blocks ? kClockNoise : kClockResolution);
    const auto next = std::upper_bound(work.begin(), work.end(), latest,
                                       [&](SimTime t, NodeIndex n) { return t < rank.end(n); });
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

}  // namespace foretrace
