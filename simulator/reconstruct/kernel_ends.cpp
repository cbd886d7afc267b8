#include "simulator/reconstruct/kernel_ends.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "simulator/reconstruct/end_spread.h"
#include "simulator/reconstruct/rank_mesh.h"
#include "simulator/reconstruct/ring_exchanges.h"
#include "simulator/trace/exchange_group.h"

namespace foretrace {
namespace {

// kFarthestEnds of single kernels, where a coincidence is likelier than of streams.
constexpr SimTime kFarthestKernels = SimTime::FromNs(50'000);

struct Kernel {
  size_t sequence;  // in the list of open ones
  size_t position;  // in its sequence
  SimTime end;
};

// Kernels of two streams whose ends lie close.
struct Coincidences {
  std::vector<std::tuple<SimTime, size_t, size_t>> pairs;  // distance, positions

  // Many that lie close.
  double Weight() {
    std::sort(pairs.begin(), pairs.end());
    const SimTime median = std::get<0>(pairs[pairs.size() / 2]);
    return static_cast<double>(pairs.size()) /
           (1 + static_cast<double>(median.ps()) / static_cast<double>(kEndResolution.ps()));
  }
};

using AllCoincidences = std::map<std::pair<size_t, size_t>, Coincidences>;  // by two sequences

// Which ranks may be partners.
struct Partners {
  std::optional<MeshAxis> axis;                                   // neighbours on a line of it
  std::optional<std::set<std::pair<int32_t, int32_t>>> declared;  // the lower rank first
};

// What was found, and how likely it is.
struct Trial {
  std::vector<PointToPointRendezvous> rendezvous;
  int64_t kernels = 0;
  int64_t alone = 0;
  double unexplained = 0;  // picoseconds a kernel, after its partner has come too
  double together = 0;     // collectives that partners have in common
  bool along_axis = false;
};

class Matcher {
 public:
  Matcher(const TraceStore& store, const std::vector<CommSequence>& open,
          const CollectivesKnown& known, const Partners& partners)
      : store_(store),
        open_(open),
        clock_offset_(known.clock_offset),
        together_(known.together),
        partners_(partners) {
    for (const CommSequence& s : open) taken_.emplace_back(s.nodes.size(), false);
  }

  Trial Run() {
    // Members of a tensor-parallel group do the same at the same time without sending to each
    // other: they are partners only where no others are. Where partners are given, they are given.
    const bool given = partners_.axis.has_value() || partners_.declared.has_value();
    for (const bool together : {false, true}) {
      MatchStreams(together, MostCoincide(FindCoincidences(together)));
      MatchKernels(together);
      if (given) break;
    }
    Trial trial;
    trial.along_axis = partners_.axis.has_value();
    trial.unexplained = Unexplained();
    for (const PointToPointRendezvous& rendezvous : rendezvous_) {
      const uint32_t a = rendezvous.members[0].rank, b = rendezvous.members[1].rank;
      const auto common = together_.find(std::minmax(a, b));
      if (common == together_.end()) continue;
      trial.together +=
          static_cast<double>(common->second) / static_cast<double>(rendezvous_.size());
    }
    for (size_t s = 0; s < open_.size(); ++s) {
      for (size_t k = 0; k < open_[s].nodes.size(); ++k) {
        ++trial.kernels;
        if (taken_[s][k]) continue;
        AddAlone(open_[s], k);
        ++trial.alone;
      }
    }
    trial.rendezvous = std::move(rendezvous_);
    return trial;
  }

 private:
  // Mean over kernels of what they took after both partners had come; of those alone, all they
  // took. Clocks that nothing connects are aligned so that both leave together.
  double Unexplained() const {
    std::map<std::pair<uint32_t, uint32_t>, std::vector<int64_t>> ends;
    const auto time_of = [&](const MatchedRendezvous::Member& m) {
      const RankTrace& rank = store_.ranks()[m.rank];
      return std::pair(rank.start(m.node) + clock_offset_[m.rank],
                       rank.end(m.node) + clock_offset_[m.rank]);
    };
    for (const PointToPointRendezvous& rendezvous : rendezvous_) {
      const auto &a = rendezvous.members[0], &b = rendezvous.members[1];
      ends[{a.rank, b.rank}].push_back((time_of(a).second - time_of(b).second).ps());
    }
    std::map<std::pair<uint32_t, uint32_t>, SimTime> offset;
    for (auto& [ranks, differences] : ends) {
      offset[ranks] = SpreadOfEnds(std::move(differences)).offset;
    }
    double sum = 0;
    for (const PointToPointRendezvous& rendezvous : rendezvous_) {
      const auto &a = rendezvous.members[0], &b = rendezvous.members[1];
      const SimTime ahead = offset.at({a.rank, b.rank});
      const auto [start_a, end_a] = time_of(a);
      const auto [start_b, end_b] = time_of(b);
      sum += 2 * static_cast<double>(
                     (std::max(end_a, end_b + ahead) - std::max(start_a, start_b + ahead)).ps());
    }
    size_t kernels = 0;
    for (size_t s = 0; s < open_.size(); ++s) {
      for (size_t k = 0; k < open_[s].nodes.size(); ++k, ++kernels) {
        const RankTrace& rank = store_.ranks()[open_[s].rank];
        if (!taken_[s][k]) sum += static_cast<double>(rank.duration(open_[s].nodes[k]).ps());
      }
    }
    return kernels == 0 ? 0 : sum / static_cast<double>(kernels);
  }

  SimTime EndOf(const CommSequence& s, size_t k) const {
    return store_.ranks()[s.rank].end(s.nodes[k]) + clock_offset_[s.rank];
  }

  // A send meets a receive; what a fused exchange holds is not known.
  bool Complement(const CommSequence& a, size_t i, const CommSequence& b, size_t j) const {
    const NodeKind kind_a = store_.ranks()[a.rank].kind(a.nodes[i]);
    const NodeKind kind_b = store_.ranks()[b.rank].kind(b.nodes[j]);
    return kind_a == NodeKind::kCollective || kind_b == NodeKind::kCollective || kind_a != kind_b;
  }

  bool Complement(const CommSequence& a, const CommSequence& b) const {
    for (size_t k = 0; k < a.nodes.size(); ++k) {
      if (!Complement(a, k, b, k)) return false;
    }
    return true;
  }

  // Median distance between the ends of the k-th kernels; if the clocks differ, about its own
  // median where there are many.
  SimTime EndDistance(const CommSequence& a, const CommSequence& b, bool one_clock) const {
    std::vector<int64_t> distances;
    for (size_t k = 0; k < a.nodes.size(); ++k) {
      distances.push_back((EndOf(a, k) - EndOf(b, k)).ps());
    }
    return SpreadOfEnds(std::move(distances), one_clock).distance;
  }

  bool IsOpen(size_t s) const { return std::ranges::find(taken_[s], true) == taken_[s].end(); }

  // Mutual nearest streams of as many operations.
  void MatchStreams(bool together, bool one_clock) {
    std::vector<std::tuple<SimTime, size_t, size_t>> candidates;
    for (size_t a = 0; a < open_.size(); ++a) {
      for (size_t b = a + 1; b < open_.size(); ++b) {
        if (!MayBePartners(a, b, together) || open_[a].nodes.size() != open_[b].nodes.size())
          continue;
        if (!IsOpen(a) || !IsOpen(b) || !Complement(open_[a], open_[b])) continue;
        const SimTime distance = EndDistance(open_[a], open_[b], one_clock);
        // Where there are but two streams there is nothing to choose.
        if (open_.size() > 2 && distance > kFarthestEnds) continue;
        candidates.emplace_back(distance, a, b);
      }
    }
    std::sort(candidates.begin(), candidates.end());
    for (const auto& [distance, a, b] : candidates) {
      if (!IsOpen(a) || !IsOpen(b)) continue;
      for (size_t k = 0; k < open_[a].nodes.size(); ++k) AddPair(a, k, b, k);
    }
  }

  // `together`: whether only members of one group are to be looked at, or only others.
  bool MayBePartners(size_t a, size_t b, bool together) const {
    const uint32_t rank_a = open_[a].rank, rank_b = open_[b].rank;
    if (rank_a == rank_b) return false;
    const int32_t number_a = store_.ranks()[rank_a].info().rank;
    const int32_t number_b = store_.ranks()[rank_b].info().rank;
    if (partners_.declared.has_value()) {
      return partners_.declared->contains(std::minmax(number_a, number_b));
    }
    if (partners_.axis.has_value()) {
      return partners_.axis->AreNeighbours(static_cast<size_t>(number_a),
                                           static_cast<size_t>(number_b));
    }
    return AreTogether(rank_a, rank_b) == together;
  }

  bool AreTogether(uint32_t a, uint32_t b) const {
    return together_.contains({std::min(a, b), std::max(a, b)});
  }

  AllCoincidences FindCoincidences(bool together) const {
    std::vector<Kernel> kernels;
    for (size_t s = 0; s < open_.size(); ++s) {
      for (size_t k = 0; k < open_[s].nodes.size(); ++k) {
        if (!taken_[s][k]) kernels.push_back({s, k, EndOf(open_[s], k)});
      }
    }
    std::sort(kernels.begin(), kernels.end(), [](const Kernel& x, const Kernel& y) {
      return std::tie(x.end, x.sequence, x.position) < std::tie(y.end, y.sequence, y.position);
    });
    AllCoincidences found;
    for (size_t i = 0; i < kernels.size(); ++i) {
      for (size_t j = i + 1; j < kernels.size(); ++j) {
        if (kernels[j].end - kernels[i].end > kFarthestKernels) break;
        const bool swap = kernels[i].sequence > kernels[j].sequence;
        const Kernel &a = kernels[swap ? j : i], &b = kernels[swap ? i : j];
        if (!MayBePartners(a.sequence, b.sequence, together) ||
            !Complement(open_[a.sequence], a.position, open_[b.sequence], b.position)) {
          continue;
        }
        found[{a.sequence, b.sequence}].pairs.emplace_back(kernels[j].end - kernels[i].end,
                                                           a.position, b.position);
      }
    }
    return found;
  }

  // Whether the clocks agree: nearly every kernel then ends when one of another rank does. In a
  // regular pipeline streams that never meet run alike, at a distance, so that only where clocks
  // differ may the spread of distances alone tell.
  bool MostCoincide(const AllCoincidences& found) const {
    std::set<std::pair<size_t, size_t>> covered;
    size_t all = 0;
    for (const auto& [streams, coincidences] : found) {
      for (const auto& [distance, i, j] : coincidences.pairs) {
        covered.emplace(streams.first, i);
        covered.emplace(streams.second, j);
      }
    }
    for (const auto& taken : taken_) {
      all += static_cast<size_t>(std::ranges::count(taken, false));
    }
    return 5 * covered.size() >= 4 * all;
  }

  void MatchKernels(bool together) {
    auto coincidences = FindCoincidences(together);
    std::vector<std::tuple<double, size_t, size_t>> order;  // least weight last
    for (auto& [streams, found] : coincidences) {
      order.emplace_back(-found.Weight(), streams.first, streams.second);
    }
    std::sort(order.begin(), order.end());
    for (const auto& [weight, a, b] : order) {
      std::map<size_t, size_t> matched;
      for (const auto& [distance, i, j] : coincidences[{a, b}].pairs) {
        if (taken_[a][i] || taken_[b][j] || !KeepsOrder(matched, i, j)) continue;
        matched.emplace(i, j);
        AddPair(a, i, b, j);
      }
    }
  }

  // Pairs of two streams that cross would wait for each other for ever.
  static bool KeepsOrder(const std::map<size_t, size_t>& matched, size_t i, size_t j) {
    const auto after = matched.upper_bound(i);
    if (after != matched.end() && after->second < j) return false;
    return after == matched.begin() || std::prev(after)->second < j;
  }

  void AddPair(size_t a, size_t i, size_t b, size_t j) {
    taken_[a][i] = taken_[b][j] = true;
    const int32_t rank_a = store_.ranks()[open_[a].rank].info().rank;
    const int32_t rank_b = store_.ranks()[open_[b].rank].info().rank;
    PointToPointRendezvous rendezvous;
    rendezvous.kind = PointToPointKind::kExchange;
    rendezvous.ranks = {rank_a, rank_b};
    rendezvous.matched_by = MatchedBy::kEnds;
    rendezvous.members = {{open_[a].rank, open_[a].nodes[i]}, {open_[b].rank, open_[b].nodes[j]}};
    const auto kind = [&](const MatchedRendezvous::Member& m) {
      return store_.ranks()[m.rank].kind(m.node);
    };
    const NodeKind kind_a = kind(rendezvous.members[0]), kind_b = kind(rendezvous.members[1]);
    rendezvous.directed = kind_a != NodeKind::kCollective || kind_b != NodeKind::kCollective;
    if (kind_a != NodeKind::kRecv && kind_b != NodeKind::kSend)
      rendezvous.transfers.push_back({0, 1});
    if (kind_a != NodeKind::kSend && kind_b != NodeKind::kRecv)
      rendezvous.transfers.push_back({1, 0});
    rendezvous_.push_back(std::move(rendezvous));
  }

  void AddAlone(const CommSequence& s, size_t k) {
    const int32_t rank = store_.ranks()[s.rank].info().rank;
    PointToPointRendezvous rendezvous;
    rendezvous.kind = PointToPointKind::kUnknownPartner;
    rendezvous.ranks = {rank};
    rendezvous.missing_members = 1;
    rendezvous.members = {{s.rank, s.nodes[k]}};
    rendezvous_.push_back(std::move(rendezvous));
  }

  const TraceStore& store_;
  const std::vector<CommSequence>& open_;
  const std::vector<SimTime>& clock_offset_;
  const std::map<std::pair<uint32_t, uint32_t>, size_t>& together_;
  const Partners& partners_;
  std::vector<std::vector<bool>> taken_;
  std::vector<PointToPointRendezvous> rendezvous_;
};

// Those that the user's file says exchange with each other.
std::optional<std::set<std::pair<int32_t, int32_t>>> DeclaredPartners(const TraceStore& store) {
  std::set<std::pair<int32_t, int32_t>> pairs;
  for (const ProcessGroup& group : store.process_groups().named(kExchangeGroup)) {
    for (const int32_t a : group.ranks) {
      for (const int32_t b : group.ranks) {
        if (a < b) pairs.emplace(a, b);
      }
    }
  }
  return pairs.empty() ? std::nullopt : std::optional(std::move(pairs));
}

}  // namespace

std::vector<PointToPointRendezvous> MatchByEnds(const TraceStore& store,
                                                const std::vector<CommSequence>& open,
                                                const CollectivesKnown& known) {
  if (open.empty()) return {};
  Partners partners;
  partners.declared = DeclaredPartners(store);
  std::vector<Trial> trials;
  trials.push_back(Matcher(store, open, known, partners).Run());
  if (partners.declared.has_value()) return std::move(trials.front().rendezvous);
  for (const MeshAxis& axis : MeshAxes(static_cast<size_t>(store.world_size()))) {
    partners.axis = axis;
    trials.push_back(Matcher(store, open, known, partners).Run());
  }
  // The least waiting for what is not seen; hardly more alone than need be, for recordings are cut.
  const double least = std::ranges::min(trials, {}, &Trial::unexplained).unexplained +
                       static_cast<double>(kEndResolution.ps());
  std::erase_if(trials, [&](const Trial& t) { return t.unexplained > least; });
  const int64_t alone = std::ranges::min(trials, {}, &Trial::alone).alone;
  std::erase_if(trials, [&](const Trial& t) { return t.alone > alone + t.kernels / 50; });
  // Stages of pipelines are an axis of the mesh of ranks, and have few collectives in common. The
  // first trial is the one without an axis.
  const auto likelier = [](const Trial& a, const Trial& b) {
    return std::tie(b.along_axis, a.together) < std::tie(a.along_axis, b.together);
  };
  std::vector<PointToPointRendezvous>& chosen =
      std::ranges::min_element(trials, likelier)->rendezvous;
  // Pairs leave much to chance of what is a ring, in which each waits for two.
  std::optional<Rings> rings = MatchRings(store, open, known.clock_offset);
  if (rings.has_value() && 2 * (rings->spread + static_cast<double>(kEndResolution.ps())) <
                               SpreadOfOwnParts(store, known.clock_offset, chosen)) {
    return std::move(rings->rendezvous);
  }
  return std::move(chosen);
}

}  // namespace foretrace
