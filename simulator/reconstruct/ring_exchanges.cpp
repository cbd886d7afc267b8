#include "simulator/reconstruct/ring_exchanges.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <utility>

#include "simulator/reconstruct/clock_noise.h"
#include "simulator/reconstruct/end_spread.h"
#include "simulator/reconstruct/rank_mesh.h"

namespace foretrace {
namespace {

// Of two ranks in a row nothing tells a ring from an exchange.
constexpr size_t kShortestRing = 3;
// Of kernels that may contradict a ring, one in so many: recordings are cut.
constexpr size_t kContradictions = 50;

// Whom a kernel waits for: both ends of its transfers, or those it receives from alone.
enum class Awaits : uint8_t { kBothEnds, kSenders };

class OwnParts {
 public:
  OwnParts(const TraceStore& store, const std::vector<SimTime>& clock_offset, Awaits awaits)
      : store_(store), clock_offset_(clock_offset), awaits_(awaits) {}

  void Add(const PointToPointRendezvous& rendezvous) {
    std::vector<SimTime> arrived;
    for (const auto& m : rendezvous.members) arrived.push_back(StartOf(m));
    std::vector<SimTime> last = arrived;
    for (const auto& t : rendezvous.transfers) {
      last[t.to] = std::max(last[t.to], arrived[t.from]);
      if (awaits_ == Awaits::kBothEnds) last[t.from] = std::max(last[t.from], arrived[t.to]);
    }
    for (size_t i = 0; i < last.size(); ++i) {
      const auto& m = rendezvous.members[i];
      const RankTrace& rank = store_.ranks()[m.rank];
      const SimTime own = rank.end(m.node) + clock_offset_[m.rank] - last[i];
      ++kernels_;
      contradictions_ += own < -kClockNoise ? 1 : 0;
      parts_[m.rank].push_back(own.ps());
    }
  }

  double Spread() const {
    if (kernels_ == 0 || contradictions_ * kContradictions > kernels_) {
      return std::numeric_limits<double>::infinity();
    }
    double sum = 0;
    for (const auto& [rank, parts] : parts_) {
      const int64_t median = Median(parts).ps();
      for (const int64_t p : parts) sum += static_cast<double>(std::abs(p - median));
    }
    return sum / static_cast<double>(kernels_);
  }

 private:
  SimTime StartOf(const MatchedRendezvous::Member& m) const {
    return store_.ranks()[m.rank].start(m.node) + clock_offset_[m.rank];
  }

  const TraceStore& store_;
  const std::vector<SimTime>& clock_offset_;
  const Awaits awaits_;
  std::map<uint32_t, std::vector<int64_t>> parts_;  // by rank
  size_t kernels_ = 0;
  size_t contradictions_ = 0;
};

double SpreadIf(const TraceStore& store, const std::vector<SimTime>& clock_offset, Awaits awaits,
                const std::vector<PointToPointRendezvous>& rendezvous) {
  OwnParts parts(store, clock_offset, awaits);
  for (const PointToPointRendezvous& r : rendezvous) parts.Add(r);
  return parts.Spread();
}

bool AllFused(const TraceStore& store, const CommSequence& s) {
  return std::ranges::all_of(
      s.nodes, [&](NodeIndex n) { return store.ranks()[s.rank].kind(n) == NodeKind::kCollective; });
}

// By line, then place, the one sequence of each rank; empty where lines are not whole or even.
std::map<size_t, std::vector<const CommSequence*>> Lines(const TraceStore& store,
                                                         const std::vector<CommSequence>& open,
                                                         const MeshAxis& axis) {
  std::map<size_t, std::vector<const CommSequence*>> lines;
  for (const CommSequence& s : open) {
    const auto number = static_cast<size_t>(store.ranks()[s.rank].info().rank);
    auto& line = lines[axis.LineOf(number)];
    line.resize(axis.size);
    const CommSequence*& place = line[axis.PlaceOf(number)];
    if (place != nullptr || !AllFused(store, s)) return {};
    place = &s;
  }
  for (const auto& [number, line] : lines) {
    for (const CommSequence* s : line) {
      if (s == nullptr || s->nodes.size() != line.front()->nodes.size()) return {};
    }
  }
  return lines;
}

// `ahead`: each hands on to the next of its line, else to the one before.
std::vector<PointToPointRendezvous> RingsOf(
    const TraceStore& store, const std::map<size_t, std::vector<const CommSequence*>>& lines,
    bool ahead) {
  std::vector<PointToPointRendezvous> rings;
  for (const auto& [number, line] : lines) {
    PointToPointRendezvous ring;
    ring.matched_by = MatchedBy::kEnds;
    const auto size = static_cast<uint32_t>(line.size());
    for (uint32_t i = 0; i < size; ++i) {
      ring.ranks.push_back(store.ranks()[line[i]->rank].info().rank);
      const uint32_t next = (i + 1) % size;
      ring.transfers.push_back({ahead ? i : next, ahead ? next : i});
    }
    ring.kind = PointToPointKind::kExchange;
    for (size_t k = 0; k < line.front()->nodes.size(); ++k) {
      ring.members.clear();
      for (const CommSequence* s : line) ring.members.push_back({s->rank, s->nodes[k]});
      rings.push_back(ring);
    }
  }
  return rings;
}

}  // namespace

double SpreadOfOwnParts(const TraceStore& store, const std::vector<SimTime>& clock_offset,
                        const std::vector<PointToPointRendezvous>& rendezvous) {
  return std::min(SpreadIf(store, clock_offset, Awaits::kBothEnds, rendezvous),
                  SpreadIf(store, clock_offset, Awaits::kSenders, rendezvous));
}

std::optional<Rings> MatchRings(const TraceStore& store, const std::vector<CommSequence>& open,
                                const std::vector<SimTime>& clock_offset) {
  std::optional<Rings> best;
  if (open.size() < kShortestRing) return best;
  for (const MeshAxis& axis : MeshAxes(static_cast<size_t>(store.world_size()))) {
    if (axis.size < kShortestRing) continue;
    const auto lines = Lines(store, open, axis);
    if (lines.empty()) continue;
    for (const bool ahead : {true, false}) {
      std::vector<PointToPointRendezvous> rings = RingsOf(store, lines, ahead);
      const double spread = SpreadOfOwnParts(store, clock_offset, rings);
      if (spread == std::numeric_limits<double>::infinity()) continue;
      if (!best.has_value() || spread < best->spread) best = Rings{std::move(rings), spread};
    }
  }
  return best;
}

}  // namespace foretrace
