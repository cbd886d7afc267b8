#include "simulator/reconstruct/communicators.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/utf8.h"
#include "simulator/reconstruct/comm_grouping.h"
#include "simulator/reconstruct/comm_sequence.h"
#include "simulator/reconstruct/point_to_point.h"
#include "simulator/reconstruct/sequence_numbers.h"

namespace foretrace {
namespace {

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
    DoubtUnequalGroups();
    for (Group& group : groups_) FORETRACE_RETURN_IF_ERROR(Align(group));
    FORETRACE_RETURN_IF_ERROR(MatchSendsAndReceives());
    std::stable_sort(map_.rendezvous.begin(), map_.rendezvous.end(),
                     [](const MatchedRendezvous& a, const MatchedRendezvous& b) {
                       return std::tie(a.members[0].rank, a.members[0].node) <
                              std::tie(b.members[0].rank, b.members[0].node);
                     });
    return std::move(map_);
  }

 private:
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
      group.communicator.missing_members =
          static_cast<uint32_t>(group.communicator.ranks.size() -
                                std::min(group.communicator.ranks.size(), group.members.size()));
      groups_.push_back(std::move(group));
    }
  }

  // Where every rank has exactly one undeclared stream with the same operations there is nothing to
  // choose, unless ends say otherwise: all are one group. Symbolic traces have no times to tell
  // groups apart by.
  void GroupUndeclaredCollectives() {
    std::vector<CommSequence*> open;
    std::vector<bool> has_rank(store_.ranks().size(), false);
    bool one_per_rank = true;
    for (CommSequence& s : sequences_) {
      if (s.grouped || s.point_to_point) continue;
      one_per_rank = one_per_rank && !has_rank[s.rank];
      has_rank[s.rank] = true;
      open.push_back(&s);
    }
    if (open.empty()) return;
    const bool timed = store_.ranks()[open.front()->rank].info().has_times;
    const bool alike = std::all_of(open.begin(), open.end(), [&](const CommSequence* s) {
      const auto shift = AlignSequences(store_, *open.front(), *s);
      return shift.has_value() && (!timed || MayEndTogether(store_, *open.front(), *s, *shift));
    });
    if (one_per_rank && alike && open.size() == store_.ranks().size()) {
      AddUndeclared(std::move(open));
    } else if (timed) {
      for (auto& group : GroupByEnds(store_, open)) AddUndeclared(std::move(group));
    } else {
      for (CommSequence* s : open) AddUndeclared({s});
    }
  }

  // Streams that do the same on all ranks divide these into groups of one size, along one axis of
  // the job. Where ends say otherwise they say too little.
  void DoubtUnequalGroups() {
    std::map<std::pair<std::string_view, uint64_t>, std::vector<const Group*>> alike;
    for (const Group& group : groups_) {
      if (group.communicator.declared) continue;
      const CommSequence& first = *group.members.front();
      const std::string_view stream = store_.ranks()[first.rank].lane_at(first.lane).label;
      alike[{stream, first.signature}].push_back(&group);
    }
    for (const auto& [stream_and_operations, groups] : alike) {
      const size_t size = groups.front()->members.size();
      if (std::ranges::all_of(groups, [&](const Group* g) { return g->members.size() == size; })) {
        continue;
      }
      std::string names;
      for (const Group* group : groups) {
        names += (names.empty() ? "\"" : ", \"") + group->communicator.name + "\"";
      }
      map_.doubts.push_back(fmt::format(
          "groups inferred from the ends of kernels differ in size although their streams do the "
          "same, so that some are likely wrong: {}; declare them with --process-groups FILE",
          names));
    }
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
    // A stream that meets no other has partners all the same: they have no trace, or were not
    // found.
    const int32_t present = static_cast<int32_t>(members.size());
    int32_t size = members.front()->declared_size;
    if (size == 0) {
      size = members.size() == store_.ranks().size() ? store_.world_size() : std::max(2, present);
    }
    group.communicator.missing_members = static_cast<uint32_t>(std::max(0, size - present));
    group.members = std::move(members);
    groups_.push_back(std::move(group));
  }

  absl::Status Align(Group& group) {
    const size_t before = map_.rendezvous.size();
    const int64_t unmatched = map_.unmatched;
    const auto numbered = store_.ranks().front().info().has_times && group.members.size() > 1
                              ? MatchByNumber(store_, group.members)
                              : std::nullopt;
    if (numbered.has_value() && NumbersFit(group, *numbered)) {
      AlignByNumber(group, *numbered);
    } else {
      FORETRACE_RETURN_IF_ERROR(AlignByOrder(group));
    }
    group.communicator.rendezvous = static_cast<int64_t>(map_.rendezvous.size() - before);
    group.communicator.unmatched = map_.unmatched - unmatched;
    map_.communicators.push_back(std::move(group.communicator));
    return absl::OkStatus();
  }

  // False where operations of one number differ: then ranks do not count alike.
  static bool NumbersFit(const Group& group, const NumberedOperations& numbered) {
    return std::ranges::all_of(numbered.positions, [&](const std::vector<size_t>& positions) {
      for (size_t m = 1; m < positions.size(); ++m) {
        if (!Agree(*group.members[0], positions[0], *group.members[m], positions[m])) return false;
      }
      return true;
    });
  }

  void AlignByNumber(Group& group, const NumberedOperations& numbered) {
    group.communicator.matched_by = MatchedBy::kNumber;
    map_.unmatched += numbered.unmatched;
    for (const std::vector<size_t>& positions : numbered.positions) {
      AddRendezvous(group, [&](size_t m) { return positions[m]; });
    }
    if (numbered.positions.empty()) {
      map_.doubts.push_back(
          fmt::format("communicator \"{}\": its ranks recorded no operation of the same number, so "
                      "that nothing "
                      "says how they wait for each other; profile the same steps on all of them",
                      group.communicator.name));
    }
  }

  // Pairs the k-th node of each member with the k-th of the others. When the recordings were cut
  // at different places the shift that makes operations and ends agree is used, and what has no
  // partner at the edges is counted.
  absl::Status AlignByOrder(Group& group) {
    CommSequence& first = *group.members.front();
    std::vector<int64_t> shift(group.members.size(), 0);
    bool sizes_agree = true;
    for (size_t m = 1; m < group.members.size(); ++m) {
      const auto found = AlignSequences(store_, first, *group.members[m]);
      if (!found.has_value()) return Disagreement(first, *group.members[m]);
      shift[m] = *found;
      sizes_agree &= SizesAgree(first, *group.members[m], shift[m]);
    }
    if (!sizes_agree) {
      map_.doubts.push_back(
          fmt::format("communicator \"{}\": ranks disagree on the sizes of some operations, so "
                      "that they may be "
                      "matched wrongly",
                      group.communicator.name));
    }
    // Positions are relative to the first member's.
    int64_t low = 0;
    auto high = static_cast<int64_t>(first.nodes.size());
    for (size_t m = 1; m < group.members.size(); ++m) {
      low = std::max(low, -shift[m]);
      high = std::min(high, static_cast<int64_t>(group.members[m]->nodes.size()) - shift[m]);
    }
    const int64_t before = map_.unmatched;
    for (const CommSequence* member : group.members) {
      map_.unmatched +=
          static_cast<int64_t>(member->nodes.size()) - std::max<int64_t>(0, high - low);
    }
    if (group.members.size() > 1) {
      group.communicator.matched_by =
          map_.unmatched == before ? MatchedBy::kOrder : MatchedBy::kAlignment;
    }
    for (int64_t k = low; k < high; ++k) {
      AddRendezvous(group, [&](size_t m) { return static_cast<size_t>(k + shift[m]); });
    }
    return absl::OkStatus();
  }

  // Of the communicator that is added next.
  template <typename PositionOfMember>
  void AddRendezvous(const Group& group, PositionOfMember position) {
    MatchedRendezvous rendezvous;
    rendezvous.communicator = static_cast<uint32_t>(map_.communicators.size());
    rendezvous.missing_members = group.communicator.missing_members;
    for (size_t m = 0; m < group.members.size(); ++m) {
      rendezvous.members.push_back({group.members[m]->rank, group.members[m]->nodes[position(m)]});
    }
    map_.rendezvous.push_back(std::move(rendezvous));
  }

  absl::Status Disagreement(const CommSequence& a, const CommSequence& b) const {
    size_t k = 0;
    while (k < a.ops.size() && k < b.ops.size() && Agree(a, k, b, k)) ++k;
    const auto describe = [&](const CommSequence& s) {
      const RankTrace& rank = store_.ranks()[s.rank];
      if (k >= s.nodes.size()) {
        return fmt::format("rank {} has only {} operations", rank.info().rank, s.nodes.size());
      }
      return fmt::format("rank {} has {} at node {} ({})", rank.info().rank,
                         DescribeCommOp(rank, s.nodes[k]), rank.source_id(s.nodes[k]),
                         Excerpt(store_.name(rank, s.nodes[k]), 60));
    };
    return InvalidInput(
        "communicator \"{}\": ranks disagree on operation {}: {}, but {}; if these are different "
        "groups, declare them with --process-groups FILE",
        a.group_name.empty() ? "undeclared" : a.group_name, k + 1, describe(a), describe(b));
  }

  absl::Status MatchSendsAndReceives();

  const TraceStore& store_;
  std::vector<CommSequence>& sequences_;
  std::vector<Group> groups_;
  CommunicatorMap map_;
};

// Of ranks that send to each other, for users to read.
std::string NameOf(PointToPointKind kind, std::span<const int32_t> ranks) {
  switch (kind) {
    case PointToPointKind::kOneWay:
      return fmt::format("send/recv {} to {}", ranks[0], ranks[1]);
    case PointToPointKind::kUnknownPartner:
      return fmt::format("exchange of rank {} with an unknown partner", ranks[0]);
    case PointToPointKind::kExchange:
      break;
  }
  return ranks.size() == 2 ? fmt::format("exchange {} and {}", ranks[0], ranks[1])
                           : fmt::format("exchange of ranks {}", fmt::join(ranks, ","));
}

absl::Status Matcher::MatchSendsAndReceives() {
  CollectivesKnown known{EstimateClockOffsets(store_, map_), {}};
  for (const Group& group : groups_) {
    if (group.members.size() == store_.ranks().size()) continue;
    for (const CommSequence* a : group.members) {
      for (const CommSequence* b : group.members) {
        if (a->rank < b->rank) known.together[{a->rank, b->rank}] += a->nodes.size();
      }
    }
  }
  FORETRACE_ASSIGN_OR_RETURN(PointToPointMatches matches,
                             MatchPointToPoint(store_, sequences_, known));
  map_.unmatched += matches.unmatched;
  std::move(matches.doubts.begin(), matches.doubts.end(), std::back_inserter(map_.doubts));
  absl::flat_hash_map<std::pair<PointToPointKind, std::vector<int32_t>>, uint32_t> ids;
  for (PointToPointRendezvous& pair : matches.rendezvous) {
    const auto [it, inserted] = ids.emplace(std::pair(pair.kind, pair.ranks),
                                            static_cast<uint32_t>(map_.communicators.size()));
    if (inserted) {
      MatchedCommunicator communicator;
      communicator.name = NameOf(pair.kind, pair.ranks);
      communicator.ranks = pair.ranks;
      communicator.missing_members = pair.missing_members;
      communicator.declared = pair.declared;
      communicator.matched_by = pair.matched_by;
      map_.communicators.push_back(std::move(communicator));
    }
    MatchedRendezvous rendezvous;
    rendezvous.communicator = it->second;
    rendezvous.point_to_point = true;
    rendezvous.missing_members = pair.missing_members;
    rendezvous.members = std::move(pair.members);
    rendezvous.transfers = std::move(pair.transfers);
    rendezvous.directed = pair.directed;
    MatchedCommunicator& communicator = map_.communicators[it->second];
    ++communicator.rendezvous;
    if (pair.matched_by == MatchedBy::kAlignment) communicator.matched_by = pair.matched_by;
    map_.rendezvous.push_back(std::move(rendezvous));
  }
  return absl::OkStatus();
}

}  // namespace

std::string_view Name(MatchedBy how) {
  switch (how) {
    case MatchedBy::kNumber:
      return "number";
    case MatchedBy::kPartner:
      return "partner";
    case MatchedBy::kOrder:
      return "order";
    case MatchedBy::kAlignment:
      return "alignment";
    case MatchedBy::kEnds:
      return "ends";
    case MatchedBy::kNothing:
      return "-";
  }
  return "-";
}

absl::StatusOr<CommunicatorMap> MatchCommunicators(const TraceStore& store) {
  std::vector<CommSequence> sequences = CollectCommSequences(store);
  return Matcher(store, sequences).Run();
}

}  // namespace foretrace
