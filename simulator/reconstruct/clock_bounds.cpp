#include "simulator/reconstruct/clock_bounds.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "simulator/reconstruct/clock_noise.h"
#include "simulator/reconstruct/transfer_modes.h"

namespace foretrace {
namespace {

constexpr int kFewest = 3;  // transfers that a matching gone wrong would not all have by chance
// Clocks that NTP keeps together differ by no more.
constexpr SimTime kMost = SimTime::FromNs(1'000'000);

// From ranks of one clock to those of another: by how much more than it is the receivers' must be
// raised for the tightest transfer, and how many are impossible as it is.
struct Order {
  SimTime least = SimTime::Min();
  int impossible = 0;
};

using Orders = std::map<std::pair<uint32_t, uint32_t>, Order>;

// For each rank the first of those that do something together which all leave at once.
std::vector<uint32_t> RanksOfOneClock(const TraceStore& store, const CommunicatorMap& map) {
  std::vector<uint32_t> first(store.ranks().size());
  std::iota(first.begin(), first.end(), 0U);
  for (const MatchedRendezvous& rendezvous : map.rendezvous) {
    if (TransfersOf(store, rendezvous).has_value()) continue;
    const uint32_t to = first[rendezvous.members.front().rank];
    for (const auto& m : rendezvous.members) {
      const uint32_t from = first[m.rank];
      if (from == to) continue;
      for (uint32_t& f : first) f = f == from ? to : f;
    }
  }
  return first;
}

Orders OrdersOf(const TraceStore& store, const CommunicatorMap& map,
                const std::vector<uint32_t>& clock, const std::vector<SimTime>& offsets) {
  Orders orders;
  for (const MatchedRendezvous& rendezvous : map.rendezvous) {
    if (!rendezvous.directed) continue;
    const auto transfers = TransfersOf(store, rendezvous);
    if (!transfers.has_value()) continue;
    for (const MatchedRendezvous::Transfer& t : *transfers) {
      const auto &from = rendezvous.members[t.from], &to = rendezvous.members[t.to];
      const RankTrace &sender = store.ranks()[from.rank], &receiver = store.ranks()[to.rank];
      if (clock[from.rank] == clock[to.rank]) continue;
      const SimTime early =
          sender.start(from.node) + offsets[from.rank] - (receiver.end(to.node) + offsets[to.rank]);
      Order& order = orders[{clock[from.rank], clock[to.rank]}];
      order.least = std::max(order.least, early);
      order.impossible += early > kClockNoise ? 1 : 0;
    }
  }
  return orders;
}

}  // namespace

std::vector<bool> KeepOrderOfTransfers(const TraceStore& store, const CommunicatorMap& map,
                                       std::vector<SimTime>& offsets) {
  const size_t ranks = store.ranks().size();
  const std::vector<bool> none(ranks, false);
  if (ranks == 0 || !store.ranks().front().info().has_times) return none;
  const std::vector<uint32_t> clock = RanksOfOneClock(store, map);
  const Orders orders = OrdersOf(store, map, clock, offsets);
  if (std::ranges::none_of(orders, [](const auto& o) { return o.second.impossible >= kFewest; })) {
    return none;
  }
  // Longest paths: each round raises receivers to what their senders' clocks ask for.
  std::vector<SimTime> raised(ranks);
  bool changed = true;
  for (size_t round = 0; changed; ++round) {
    if (round > ranks) return none;  // a circle of transfers that no clocks make possible
    changed = false;
    for (const auto& [pair, order] : orders) {
      const SimTime needed = raised[pair.first] + order.least;
      if (needed <= raised[pair.second]) continue;
      // Within noise that is no contradiction, unless its sender's clock was raised.
      if (needed <= kClockNoise && raised[pair.second] == SimTime()) continue;
      raised[pair.second] = needed;
      changed = true;
    }
  }
  if (*std::ranges::max_element(raised) > kMost) return none;
  std::vector<bool> was_raised = none;
  for (size_t r = 0; r < ranks; ++r) {
    was_raised[r] = raised[clock[r]] > SimTime();
    offsets[r] += raised[clock[r]];
  }
  return was_raised;
}

}  // namespace foretrace
