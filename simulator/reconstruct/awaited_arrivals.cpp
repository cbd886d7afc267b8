#include "simulator/reconstruct/awaited_arrivals.h"

#include <algorithm>
#include <utility>

#include "simulator/reconstruct/clock_noise.h"

namespace foretrace {

AwaitedArrivalsFinder::AwaitedArrivalsFinder(const TraceStore& store, const CommunicatorMap& map,
                                             std::span<const SimTime> clock_offset)
    : store_(store),
      times_(store, clock_offset),
      timed_(!store.ranks().empty() && store.ranks().front().info().has_times) {
  if (timed_) modes_.emplace(store, map, clock_offset);
}

AwaitedArrivals AwaitedArrivalsFinder::Find(const MatchedRendezvous& rendezvous) const {
  const auto transfers = TransfersOf(store_, rendezvous);
  if (!transfers.has_value()) return ByEvidence(rendezvous);
  AwaitedArrivals awaited;
  awaited.all = false;
  std::vector<AwaitedArrivals::Await> shown;
  for (const MatchedRendezvous::Transfer& t : *transfers) {
    const MatchedRendezvous::Member &from = rendezvous.members[t.from],
                                    &to = rendezvous.members[t.to];
    if (timed_) {
      // Where no kernel says which way it transfers, this is the way that it did not.
      const SimTime early = times_.ArrivalOf(from) - times_.EndOf(to);
      if (early > (rendezvous.directed ? kClockNoise : SimTime())) {
        awaited.impossible += rendezvous.directed ? 1 : 0;
        continue;
      }
    }
    shown.push_back({t.to, t.from});
    if (timed_ && modes_->IsBuffered(rendezvous, t)) {
      ++awaited.buffered;
    } else if (timed_ && modes_->IsUnknown(rendezvous, t)) {
      awaited.assumed.push_back({t.from, t.to});
    } else {
      shown.push_back({t.from, t.to});
    }
  }
  std::ranges::sort(shown);
  std::erase_if(awaited.assumed,
                [&](const auto& await) { return std::ranges::binary_search(shown, await); });
  awaited.list = std::move(shown);
  awaited.list.insert(awaited.list.end(), awaited.assumed.begin(), awaited.assumed.end());
  std::ranges::sort(awaited.list);
  awaited.list.erase(std::unique(awaited.list.begin(), awaited.list.end()), awaited.list.end());
  const size_t n = rendezvous.members.size();
  if (awaited.list.size() == n * (n - 1)) {
    awaited.all = true;
    awaited.list.clear();
  }
  return awaited;
}

AwaitedArrivals AwaitedArrivalsFinder::WithoutAssumed(const MatchedRendezvous& rendezvous,
                                                      AwaitedArrivals awaited) {
  if (awaited.all) {
    awaited.all = false;
    const auto members = static_cast<uint32_t>(rendezvous.members.size());
    for (uint32_t source = 0; source < members; ++source) {
      for (uint32_t member = 0; member < members; ++member) {
        if (member != source) awaited.list.push_back({member, source});
      }
    }
  }
  std::erase_if(awaited.list, [&](const AwaitedArrivals::Await& await) {
    return std::ranges::find(awaited.assumed, await) != awaited.assumed.end();
  });
  awaited.assumed.clear();
  return awaited;
}

// The root is not known: members wait for all others but those that came after they had left.
AwaitedArrivals AwaitedArrivalsFinder::ByEvidence(const MatchedRendezvous& rendezvous) const {
  AwaitedArrivals awaited;
  const auto& first = rendezvous.members.front();
  if (!timed_ || !IsRootedCollective(store_.ranks()[first.rank], first.node)) return awaited;
  SimTime first_end = SimTime::Max(), last_arrival = SimTime::Min();
  for (const auto& m : rendezvous.members) {
    first_end = std::min(first_end, times_.EndOf(m));
    last_arrival = std::max(last_arrival, times_.ArrivalOf(m));
  }
  if (first_end >= last_arrival) return awaited;
  awaited.all = false;
  for (uint32_t source = 0; source < rendezvous.members.size(); ++source) {
    for (uint32_t m = 0; m < rendezvous.members.size(); ++m) {
      if (m == source) continue;
      if (times_.EndOf(rendezvous.members[m]) < times_.ArrivalOf(rendezvous.members[source])) {
        ++awaited.buffered;
      } else {
        awaited.list.push_back({m, source});
      }
    }
  }
  return awaited;
}

std::vector<SimTime> AwaitedArrivalsFinder::OwnParts(const MatchedRendezvous& rendezvous,
                                                     const AwaitedArrivals& awaited) const {
  std::vector<SimTime> latest;
  for (const auto& m : rendezvous.members) latest.push_back(times_.ArrivalOf(m));
  if (awaited.all) {
    std::ranges::fill(latest, *std::ranges::max_element(latest));
  } else {
    for (const auto& [member, source] : awaited.list) {
      latest[member] = std::max(latest[member], times_.ArrivalOf(rendezvous.members[source]));
    }
  }
  std::vector<SimTime> parts;
  for (size_t m = 0; m < rendezvous.members.size(); ++m) {
    parts.push_back(std::max(SimTime(), times_.EndOf(rendezvous.members[m]) - latest[m]));
  }
  return parts;
}

}  // namespace foretrace
