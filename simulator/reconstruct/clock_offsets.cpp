#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/reconstruct/clock_bounds.h"
#include "simulator/reconstruct/clock_noise.h"
#include "simulator/reconstruct/communicators.h"
#include "simulator/reconstruct/end_spread.h"

namespace foretrace {
namespace {

constexpr uint32_t kNoRoot = UINT32_MAX;
constexpr size_t kFewest = 3;  // collectives that two ranks share
// Clocks that NTP keeps together differ by as much, however short the steps.
constexpr SimTime kOrdinaryOffset = SimTime::FromNs(1'000'000);

// What two ranks, the lower index first, recorded of what they did together.
struct Shared {
  std::vector<int64_t> collectives;    // end on the first less end on the second
  std::vector<int64_t> rooted;         // the same, where a root may leave before the others come
  std::vector<int64_t> rooted_starts;  // of these, how far apart they began
  std::vector<int64_t> mutual;     // as collectives: of kernels each of which receives of the other
  std::vector<int64_t> transfers;  // the same of sends and receives
  bool backwards = false;          // something was received before it was sent
  // Of transfers one way: by how much the receiver came before the sender, by clocks that differ
  // by `clocks * offset`, and how far apart they left, as in `transfers`.
  struct Early {
    int64_t ps = 0;
    int clocks = 1;
    int64_t ends = 0;
  };
  std::vector<Early> early;
  bool exchanges = false;  // some are of kernels that exchange with others, too

  // To add to the second's times; nullopt: not to be had.
  std::optional<SimTime> Offset() {
    if (collectives.size() >= kFewest) return Median(collectives);
    // Unless parts of the exchange are buffered, these end together, too.
    if (const auto offset = OneDistance(mutual)) return offset;
    // A root that leaves when it likes does so at another distance each time that the others come
    // at another.
    if (rooted.size() >= kEnoughForSpread && SpreadOfEnds(rooted_starts).distance > kClockNoise) {
      if (const auto offset = OneDistance(rooted)) return offset;
    }
    // Sends may be buffered and end early, so that distances of ends alone prove no offset: the
    // distance must be the same throughout, and the recorded order impossible, or the distance
    // that of ends which waited for each other.
    if (transfers.size() < kEnoughForSpread) return std::nullopt;
    const EndSpread ends = SpreadOfEnds(transfers);
    if (ends.distance > kClockNoise || !(backwards || SendersWaited(ends.offset))) {
      return std::nullopt;
    }
    return ends.offset;
  }

 private:
  // Of ends that lie as far apart throughout.
  static std::optional<SimTime> OneDistance(const std::vector<int64_t>& ends) {
    if (ends.size() < kEnoughForSpread) return std::nullopt;
    const EndSpread spread = SpreadOfEnds(ends);
    if (spread.distance > kClockNoise) return std::nullopt;
    return spread.offset;
  }
  // By clocks so far apart, receivers came after their senders, some by more than others, and
  // mostly both left together all the same: a sender that does not wait leaves as much earlier as
  // its receiver is late.
  bool SendersWaited(SimTime offset) const {
    int together = 0, apart = 0;
    int64_t latest = 0, least_late = std::numeric_limits<int64_t>::max();
    for (const Early& e : early) {
      const int64_t late = -(e.ps + e.clocks * offset.ps());
      if (late <= kClockNoise.ps()) continue;
      latest = std::max(latest, late);
      least_late = std::min(least_late, late);
      ++(std::abs(e.ends - offset.ps()) <= kClockNoise.ps() ? together : apart);
    }
    return together > apart && (!exchanges || latest - least_late > kClockNoise.ps());
  }
};

using Pairs = std::map<std::pair<uint32_t, uint32_t>, Shared>;

void AddCollective(const TraceStore& store, const MatchedRendezvous& rendezvous, Pairs& pairs) {
  const auto& first = rendezvous.members.front();
  const RankTrace& rank = store.ranks()[first.rank];
  for (const auto& m : rendezvous.members) {
    if (m.rank == first.rank || !store.ranks()[m.rank].info().has_times) continue;
    Shared& shared = pairs[{first.rank, m.rank}];
    const RankTrace& other = store.ranks()[m.rank];
    const bool rooted = IsRooted(rank.collective_op(first.node));
    (rooted ? shared.rooted : shared.collectives)
        .push_back((rank.end(first.node) - other.end(m.node)).ps());
    if (rooted) shared.rooted_starts.push_back((rank.start(first.node) - other.start(m.node)).ps());
  }
}

void AddTransfer(const TraceStore& store, const MatchedRendezvous& rendezvous, Pairs& pairs) {
  auto a = rendezvous.members[0], b = rendezvous.members[1];
  if (a.rank == b.rank) return;
  if (a.rank > b.rank) std::swap(a, b);
  const RankTrace &rank_a = store.ranks()[a.rank], &rank_b = store.ranks()[b.rank];
  if (!rank_a.info().has_times || !rank_b.info().has_times) return;
  Shared& shared = pairs[{a.rank, b.rank}];
  shared.transfers.push_back((rank_a.end(a.node) - rank_b.end(b.node)).ps());
  const bool a_receives = rank_a.kind(a.node) != NodeKind::kSend;
  const bool b_receives = rank_b.kind(b.node) != NodeKind::kSend;
  shared.backwards |= (a_receives && rank_a.end(a.node) < rank_b.start(b.node)) ||
                      (b_receives && rank_b.end(b.node) < rank_a.start(a.node));
  if (!rendezvous.directed || a_receives == b_receives) return;
  const int64_t apart = (rank_b.start(b.node) - rank_a.start(a.node)).ps();
  const int64_t ends = shared.transfers.back();
  shared.early.push_back(a_receives ? Shared::Early{apart, 1, ends}
                                    : Shared::Early{-apart, -1, ends});
}

// Each of two kernels sends to the other.
bool IsMutual(const MatchedRendezvous& rendezvous) {
  return rendezvous.directed && std::ranges::any_of(rendezvous.transfers, [&](const auto& t) {
           return t.from != rendezvous.transfers.front().from;
         });
}

// Of kernels that exchange with several ranks, as those of a ring: what goes one way between two of
// them.
void AddExchange(const TraceStore& store, const MatchedRendezvous& rendezvous, Pairs& pairs) {
  std::set<std::pair<uint32_t, uint32_t>> directions;
  for (const auto& t : rendezvous.transfers) directions.insert({t.from, t.to});
  for (const auto& [source, destination] : directions) {
    const auto &from = rendezvous.members[source], &to = rendezvous.members[destination];
    if (from.rank == to.rank) continue;
    const RankTrace &sender = store.ranks()[from.rank], &receiver = store.ranks()[to.rank];
    if (!sender.info().has_times || !receiver.info().has_times) continue;
    Shared& shared = pairs[{std::min(from.rank, to.rank), std::max(from.rank, to.rank)}];
    if (directions.contains({destination, source})) {
      if (from.rank < to.rank) {
        shared.mutual.push_back((sender.end(from.node) - receiver.end(to.node)).ps());
      }
      continue;
    }
    const int clocks = from.rank < to.rank ? -1 : 1;
    const int64_t ends = -clocks * (sender.end(from.node) - receiver.end(to.node)).ps();
    shared.transfers.push_back(ends);
    const int64_t early = (sender.start(from.node) - receiver.start(to.node)).ps();
    shared.early.push_back({early, clocks, ends});
    shared.exchanges = true;
  }
}

// The shortest recorded; where none is marked, the shortest recording.
SimTime Step(const TraceStore& store) {
  SimTime shortest = SimTime::Max();
  for (const RankTrace& rank : store.ranks()) {
    for (const IterationMark& mark : rank.iterations()) {
      shortest = std::min(shortest, rank.duration(mark.node));
    }
  }
  if (shortest < SimTime::Max()) return shortest;
  for (const RankTrace& rank : store.ranks()) {
    SimTime end = SimTime::Min();
    for (uint32_t i = 0; i < rank.size(); ++i) end = std::max(end, rank.end(NodeIndex(i)));
    if (rank.size() > 0) shortest = std::min(shortest, end - rank.start(NodeIndex(0)));
  }
  return shortest;
}

// Of what shows how far apart clocks are.
Pairs PairsOf(const TraceStore& store, const CommunicatorMap& map) {
  Pairs pairs;
  for (const MatchedRendezvous& rendezvous : map.rendezvous) {
    if (rendezvous.members.size() < 2) continue;
    if (!rendezvous.point_to_point) {
      AddCollective(store, rendezvous, pairs);
    } else if (rendezvous.members.size() == 2 && !IsMutual(rendezvous)) {
      AddTransfer(store, rendezvous, pairs);
    } else if (rendezvous.directed) {
      AddExchange(store, rendezvous, pairs);
    }
  }
  return pairs;
}

struct Link {
  uint32_t to;
  bool by_transfers;
  SimTime offset;  // of `to` against the rank it is a link of
};
using Links = std::vector<std::vector<Link>>;  // by rank

Links LinksOf(Pairs& pairs, size_t ranks) {
  Links links(ranks);
  for (auto& [pair, shared] : pairs) {
    const auto offset = shared.Offset();
    if (!offset.has_value()) continue;
    const bool by_transfers = shared.collectives.size() < kFewest;
    links[pair.first].push_back({pair.second, by_transfers, *offset});
    links[pair.second].push_back({pair.first, by_transfers, -*offset});
  }
  return links;
}

// Offsets from the first rank on, over as few links of sends and receives, and then of any kind, as
// can be; and from which rank on each is known: ranks that nothing connects to the first keep their
// time.
struct Reached {
  std::vector<SimTime> offsets;
  std::vector<uint32_t> root;
};
Reached Reach(const Links& links) {
  Reached reached{std::vector<SimTime>(links.size()), std::vector<uint32_t>(links.size(), kNoRoot)};
  using Path = std::tuple<int, int, uint32_t, SimTime>;  // transfers, links, rank, offset
  std::priority_queue<Path, std::vector<Path>, std::greater<>> open;
  for (uint32_t root = 0; root < links.size(); ++root) {
    if (reached.root[root] != kNoRoot) continue;
    open.emplace(0, 0, root, SimTime());
    while (!open.empty()) {
      const auto [transfers, hops, rank, offset] = open.top();
      open.pop();
      if (reached.root[rank] != kNoRoot) continue;
      reached.root[rank] = root;
      reached.offsets[rank] = offset;
      for (const Link& link : links[rank]) {
        if (reached.root[link.to] != kNoRoot) continue;
        open.emplace(transfers + (link.by_transfers ? 1 : 0), hops + 1, link.to,
                     offset + link.offset);
      }
    }
  }
  return reached;
}

}  // namespace

std::vector<SimTime> EstimateClockOffsets(const TraceStore& store, const CommunicatorMap& map) {
  return EstimateClocks(store, map).offsets;
}

ClockEstimate EstimateClocks(const TraceStore& store, const CommunicatorMap& map) {
  Pairs pairs = PairsOf(store, map);
  auto [offsets, known] = Reach(LinksOf(pairs, store.ranks().size()));
  std::vector<SimTime> within_noise(offsets.size());
  for (size_t r = 0; r < offsets.size(); ++r) {
    if (offsets[r] > kClockNoise || -offsets[r] > kClockNoise) continue;
    within_noise[r] = std::exchange(offsets[r], SimTime());
  }
  std::set<uint32_t> apart;  // roots of ranks that do something with ranks of an earlier root
  for (const auto& [ranks, shared] : pairs) {
    const auto [earlier, later] = std::minmax(known[ranks.first], known[ranks.second]);
    if (earlier != later) apart.insert(later);
  }
  ClockEstimate estimate{std::move(offsets), {}, std::move(within_noise)};
  for (const uint32_t root : known) estimate.unknown.push_back(apart.contains(root));
  return estimate;
}

absl::Status CheckClockOffsets(const TraceStore& store, const CommunicatorMap& map,
                               const std::vector<SimTime>& offsets) {
  if (std::ranges::all_of(offsets, [](SimTime offset) { return offset == SimTime(); })) {
    return absl::OkStatus();
  }
  std::set<int32_t> numbered;
  for (const MatchedCommunicator& c : map.communicators) {
    if (c.matched_by == MatchedBy::kNumber) numbered.insert(c.ranks.begin(), c.ranks.end());
  }
  const SimTime step = Step(store);
  const SimTime most = std::max(step, kOrdinaryOffset);
  for (size_t r = 0; r < offsets.size(); ++r) {
    const RankInfo& info = store.ranks()[r].info();
    if (offsets[r] <= most && -offsets[r] <= most) continue;
    if (numbered.contains(info.rank)) continue;
    return InvalidInput(
        "{}: the clock of rank {} seems to be {:.0f} us {} that of rank {}, more than a step "
        "({:.0f} us): these ranks likely recorded different steps, or one lost collectives amid "
        "its own; profile the same steps on all ranks, or with sequence numbers of collectives "
        "(PyTorch 2.5 and later)",
        info.source, info.rank, offsets[r].us() < 0 ? -offsets[r].us() : offsets[r].us(),
        offsets[r] < SimTime() ? "ahead of" : "behind", store.ranks().front().info().rank,
        step.us());
  }
  return absl::OkStatus();
}

}  // namespace foretrace
