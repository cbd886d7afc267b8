#include "simulator/trace/infer/communicators.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/trace/infer/comm_sequence.h"

namespace foretrace {
namespace {

// How far the ends of one collective's kernels lie apart on different devices.
constexpr SimTime kSameEnd = SimTime::FromNs(50'000);

bool IsRooted(CollectiveOp op) {
  return op == CollectiveOp::kBroadcast || op == CollectiveOp::kReduce ||
         op == CollectiveOp::kGather || op == CollectiveOp::kScatter;
}

struct Group {
  MatchedCommunicator communicator;
  std::vector<CommSequence*> members;
};

class Matcher {
 public:
  Matcher(const TraceStore& store, std::vector<CommSequence>& sequences)
      : store_(store), sequences_(sequences) {}

  absl::StatusOr<CommunicatorMap> Run() {
    GroupDeclared();
    GroupUndeclaredCollectives();
    for (Group& group : groups_) FORETRACE_RETURN_IF_ERROR(Align(group));
    FORETRACE_RETURN_IF_ERROR(PairPointToPoint());
    std::stable_sort(map_.meetings.begin(), map_.meetings.end(),
                     [](const Meeting& a, const Meeting& b) {
                       return std::tie(a.members[0].rank, a.members[0].node) <
                              std::tie(b.members[0].rank, b.members[0].node);
                     });
    return std::move(map_);
  }

 private:
  SimTime End(const CommSequence& s, size_t k) const {
    return store_.ranks()[s.rank].end(s.nodes[k]);
  }

  void GroupDeclared() {
    std::map<std::pair<std::string, std::vector<int32_t>>, Group> by_name;
    for (CommSequence& sequence : sequences_) {
      if (!sequence.declared_ranks.has_value() || sequence.point_to_point) continue;
      sequence.grouped = true;
      Group& group = by_name[{sequence.group_name, *sequence.declared_ranks}];
      group.members.push_back(&sequence);
      group.communicator.name = sequence.group_name;
      group.communicator.ranks = *sequence.declared_ranks;
      group.communicator.declared = true;
    }
    for (auto& [key, group] : by_name) {
      group.communicator.missing_members = static_cast<uint32_t>(
          group.communicator.ranks.size() - std::min(group.communicator.ranks.size(),
                                                     group.members.size()));
      groups_.push_back(std::move(group));
    }
  }

  // Median distance of ends, over the collectives both have, with the better of the alignments.
  std::optional<SimTime> EndDistance(const CommSequence& a, const CommSequence& b) const {
    if (a.signature != b.signature || !store_.ranks()[a.rank].info().has_times) {
      return std::nullopt;
    }
    std::vector<int64_t> distances;
    for (size_t k = 0; k < a.nodes.size(); ++k) {
      distances.push_back(std::abs((End(a, k) - End(b, k)).ps()));
    }
    std::nth_element(distances.begin(), distances.begin() + distances.size() / 2, distances.end());
    return SimTime::FromPs(distances[distances.size() / 2]);
  }

  // Streams with one sequence of operations on several ranks: together when they end together.
  // Where every rank has exactly one such stream there is nothing to choose: all are one group.
  void GroupUndeclaredCollectives() {
    std::vector<CommSequence*> open;
    for (CommSequence& s : sequences_) {
      if (!s.grouped && !s.point_to_point) open.push_back(&s);
    }
    absl::flat_hash_map<uint64_t, std::vector<CommSequence*>> by_signature;
    std::vector<uint64_t> order;
    for (CommSequence* s : open) {
      auto& list = by_signature[s->signature];
      if (list.empty()) order.push_back(s->signature);
      list.push_back(s);
    }
    for (const uint64_t signature : order) {
      std::vector<CommSequence*>& list = by_signature[signature];
      std::vector<std::vector<CommSequence*>> clusters;
      for (CommSequence* s : list) {
        size_t best = clusters.size();
        SimTime best_distance = kSameEnd;
        for (size_t c = 0; c < clusters.size(); ++c) {
          const bool has_rank = std::any_of(clusters[c].begin(), clusters[c].end(),
                                            [&](auto* m) { return m->rank == s->rank; });
          if (has_rank) continue;
          const auto distance = EndDistance(*clusters[c].front(), *s);
          if (!distance.has_value() || *distance < best_distance) {
            best = c;
            best_distance = distance.value_or(SimTime());
          }
        }
        if (best == clusters.size()) clusters.emplace_back();
        clusters[best].push_back(s);
      }
      const bool one_per_rank = list.size() == store_.ranks().size() &&
                                std::all_of(clusters.begin(), clusters.end(),
                                            [](const auto& c) { return c.size() == 1; });
      if (one_per_rank && list.size() > 1 && open.size() == list.size()) clusters = {list};
      for (auto& cluster : clusters) AddUndeclared(std::move(cluster));
    }
    MergeLeftovers();
  }

  // Every rank has exactly one open stream, with sequences that differ only because the recordings
  // were cut at different places: one group, aligned later.
  void MergeLeftovers() {
    std::vector<size_t> undeclared;
    std::vector<bool> has_rank(store_.ranks().size(), false);
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].communicator.declared) continue;
      undeclared.push_back(g);
      for (const CommSequence* s : groups_[g].members) {
        if (has_rank[s->rank]) return;
        has_rank[s->rank] = true;
      }
    }
    if (undeclared.size() < 2) return;
    Group merged;
    for (const size_t g : undeclared) {
      merged.members.insert(merged.members.end(), groups_[g].members.begin(),
                            groups_[g].members.end());
    }
    std::sort(merged.members.begin(), merged.members.end(),
              [](const auto* a, const auto* b) { return a->rank < b->rank; });
    std::erase_if(groups_, [](const Group& g) { return !g.communicator.declared; });
    AddUndeclared(std::move(merged.members));
  }

  void AddUndeclared(std::vector<CommSequence*> members) {
    Group group;
    for (const CommSequence* s : members) {
      group.communicator.ranks.push_back(store_.ranks()[s->rank].info().rank);
    }
    const RankTrace& first = store_.ranks()[members.front()->rank];
    group.communicator.name =
        fmt::format("{} of ranks {}", first.lane_at(members.front()->lane).label,
                    fmt::join(group.communicator.ranks, ","));
    // All ranks of the job may be members; those without a trace are missing.
    if (members.size() == store_.ranks().size() || store_.ranks().size() == 1) {
      const int32_t declared_size = members.front()->declared_size > 0
                                        ? members.front()->declared_size
                                        : store_.world_size();
      group.communicator.missing_members = static_cast<uint32_t>(
          std::max<int64_t>(0, declared_size - static_cast<int64_t>(members.size())));
    }
    group.members = std::move(members);
    groups_.push_back(std::move(group));
  }

  // Pairs the k-th node of each member with the k-th of the others. When the recordings were cut
  // at different places the shift that makes operations and ends agree is used, and what has no
  // partner at the edges is counted.
  absl::Status Align(Group& group) {
    const auto id = static_cast<uint32_t>(map_.communicators.size());
    CommSequence& first = *group.members.front();
    std::vector<int64_t> shift(group.members.size(), 0);
    for (size_t m = 1; m < group.members.size(); ++m) {
      FORETRACE_ASSIGN_OR_RETURN(shift[m], FindShift(first, *group.members[m]));
    }
    // Positions are relative to the first member's.
    int64_t low = 0;
    auto high = static_cast<int64_t>(first.nodes.size());
    for (size_t m = 1; m < group.members.size(); ++m) {
      low = std::max(low, -shift[m]);
      high = std::min(high, static_cast<int64_t>(group.members[m]->nodes.size()) - shift[m]);
    }
    for (size_t m = 0; m < group.members.size(); ++m) {
      map_.outside_window += static_cast<int64_t>(group.members[m]->nodes.size()) -
                             std::max<int64_t>(0, high - low);
    }
    for (int64_t k = low; k < high; ++k) {
      Meeting meeting;
      meeting.communicator = id;
      meeting.missing_members = group.communicator.missing_members;
      for (size_t m = 0; m < group.members.size(); ++m) {
        meeting.members.push_back(
            {group.members[m]->rank, group.members[m]->nodes[k + shift[m]], false});
      }
      MarkEager(meeting);
      map_.meetings.push_back(std::move(meeting));
    }
    group.communicator.meetings = std::max<int64_t>(0, high - low);
    map_.communicators.push_back(std::move(group.communicator));
    return absl::OkStatus();
  }

  bool SameOps(const CommSequence& a, const CommSequence& b, int64_t shift) const {
    const auto na = static_cast<int64_t>(a.nodes.size());
    const auto nb = static_cast<int64_t>(b.nodes.size());
    for (int64_t k = std::max<int64_t>(0, -shift); k < na && k + shift < nb; ++k) {
      if (a.ops[k] != b.ops[k + shift]) return false;
    }
    return true;
  }

  absl::StatusOr<int64_t> FindShift(const CommSequence& a, const CommSequence& b) const {
    if (a.ops == b.ops) return 0;
    const auto na = static_cast<int64_t>(a.nodes.size());
    const auto nb = static_cast<int64_t>(b.nodes.size());
    const int64_t reach = std::abs(na - nb) + 4;
    std::optional<int64_t> best;
    SimTime best_distance = SimTime::Max();
    for (int64_t shift = -reach; shift <= reach; ++shift) {
      const int64_t common = std::min(na, nb - shift) - std::max<int64_t>(0, -shift);
      // At most the edges may be cut off.
      if (common <= 0 || 2 * common < std::max(na, nb) || !SameOps(a, b, shift)) continue;
      std::vector<int64_t> distances;
      for (int64_t k = std::max<int64_t>(0, -shift); k < na && k + shift < nb; ++k) {
        distances.push_back(std::abs((End(a, k) - End(b, k + shift)).ps()));
      }
      std::nth_element(distances.begin(), distances.begin() + distances.size() / 2,
                       distances.end());
      const SimTime distance = SimTime::FromPs(distances[distances.size() / 2]);
      if (distance < best_distance) {
        best = shift;
        best_distance = distance;
      }
    }
    if (best.has_value() && store_.ranks()[a.rank].info().has_times) return *best;
    return Disagreement(a, b);
  }

  absl::Status Disagreement(const CommSequence& a, const CommSequence& b) const {
    size_t k = 0;
    while (k < a.ops.size() && k < b.ops.size() && a.ops[k] == b.ops[k]) ++k;
    const auto describe = [&](const CommSequence& s) {
      const RankTrace& rank = store_.ranks()[s.rank];
      if (k >= s.nodes.size()) {
        return fmt::format("rank {} has only {} operations", rank.info().rank, s.nodes.size());
      }
      return fmt::format("rank {} has {} at node {} ({})", rank.info().rank,
                         DescribeCommOp(rank, s.nodes[k]), rank.source_id(s.nodes[k]),
                         store_.name(rank, s.nodes[k]).substr(0, 60));
    };
    return InvalidInput(
        "communicator \"{}\": ranks disagree on operation {}: {}, but {}; if these are different "
        "groups, declare them with --process-groups FILE",
        a.group_name.empty() ? "undeclared" : a.group_name, k + 1, describe(a), describe(b));
  }

  void MarkEager(Meeting& meeting) const {
    SimTime last_arrival = SimTime::Min();
    for (const auto& m : meeting.members) {
      const RankTrace& rank = store_.ranks()[m.rank];
      if (!rank.info().has_times) return;
      last_arrival = std::max(last_arrival, rank.start(m.node));
    }
    for (auto& m : meeting.members) {
      const RankTrace& rank = store_.ranks()[m.rank];
      m.eager = IsRooted(rank.collective_op(m.node)) && rank.kind(m.node) == NodeKind::kCollective &&
                rank.end(m.node) < last_arrival;
    }
  }

  absl::Status PairPointToPoint();

  const TraceStore& store_;
  std::vector<CommSequence>& sequences_;
  std::vector<Group> groups_;
  CommunicatorMap map_;
};

// Declared peers pair by (sender, receiver, tag) in order. Fused exchanges without a peer pair
// stream by stream: the two whose numbers of operations agree and whose ends lie closest.
absl::Status Matcher::PairPointToPoint() {
  FORETRACE_ASSIGN_OR_RETURN(std::vector<PointToPointPair> pairs,
                             PairSendsAndReceives(store_, sequences_));
  absl::flat_hash_map<std::string, uint32_t> ids;
  for (PointToPointPair& pair : pairs) {
    const auto [it, inserted] =
        ids.emplace(pair.communicator_name, static_cast<uint32_t>(map_.communicators.size()));
    if (inserted) {
      MatchedCommunicator communicator;
      communicator.name = pair.communicator_name;
      communicator.ranks = pair.ranks;
      communicator.missing_members = pair.missing_members;
      communicator.declared = pair.declared;
      map_.communicators.push_back(std::move(communicator));
    }
    Meeting meeting;
    meeting.communicator = it->second;
    meeting.point_to_point = true;
    meeting.missing_members = pair.missing_members;
    for (const auto& [rank, node] : pair.members) meeting.members.push_back({rank, node, false});
    ++map_.communicators[it->second].meetings;
    map_.meetings.push_back(std::move(meeting));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CommunicatorMap> MatchCommunicators(const TraceStore& store) {
  std::vector<CommSequence> sequences = CollectCommSequences(store);
  return Matcher(store, sequences).Run();
}

std::vector<SimTime> EstimateClockOffsets(const TraceStore& store, const CommunicatorMap& map) {
  constexpr SimTime kNoise = SimTime::FromNs(20'000);
  const size_t ranks = store.ranks().size();
  std::vector<std::vector<int64_t>> differences(ranks);
  for (const Meeting& meeting : map.meetings) {
    if (meeting.point_to_point || meeting.members.size() < 2) continue;
    const auto& first = meeting.members.front();
    if (first.rank != 0) continue;
    for (const auto& m : meeting.members) {
      if (m.eager || !store.ranks()[m.rank].info().has_times) continue;
      differences[m.rank].push_back(
          (store.ranks()[0].end(first.node) - store.ranks()[m.rank].end(m.node)).ps());
    }
  }
  std::vector<SimTime> offsets(ranks);
  for (size_t r = 1; r < ranks; ++r) {
    auto& d = differences[r];
    if (d.size() < 3) continue;
    std::nth_element(d.begin(), d.begin() + d.size() / 2, d.end());
    const SimTime median = SimTime::FromPs(d[d.size() / 2]);
    if (median > kNoise || median < -kNoise) offsets[r] = median;
  }
  return offsets;
}

}  // namespace foretrace
