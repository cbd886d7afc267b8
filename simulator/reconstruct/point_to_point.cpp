#include "simulator/reconstruct/point_to_point.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "simulator/base/error.h"
#include "simulator/reconstruct/comm_grouping.h"
#include "simulator/reconstruct/kernel_ends.h"

namespace foretrace {
namespace {

struct Partner {
  int32_t rank;
  bool sends;  // the node sends to it; otherwise it receives from it
};

// Whom a node meets, as far as the recording says.
std::vector<Partner> PartnersOf(const TraceStore& store, const RankTrace& rank, NodeIndex n) {
  std::vector<Partner> partners;
  const CommAttr* attr = rank.comm(n);
  if (attr == nullptr) return partners;
  const bool sends = rank.kind(n) != NodeKind::kRecv;
  const bool receives = rank.kind(n) != NodeKind::kSend;
  if (attr->in_splits == 0 && attr->out_splits == 0) {
    if (attr->peer >= 0 && sends) partners.push_back({attr->peer, true});
    if (attr->peer >= 0 && receives) partners.push_back({attr->peer, false});
    return partners;
  }
  const auto group = DeclaredRanks(store, rank, *attr);
  const auto add = [&](std::span<const int64_t> bytes, bool sending) {
    for (size_t i = 0; i < bytes.size(); ++i) {
      if (bytes[i] <= 0 || (group && i >= group->size())) continue;
      const int32_t partner = group ? (*group)[i] : static_cast<int32_t>(i);
      if (partner != rank.info().rank) partners.push_back({partner, sending});
    }
  };
  if (sends) add(rank.in_splits(*attr), true);
  if (receives) add(rank.out_splits(*attr), false);
  return partners;
}

// Nodes, and the transfers between them that partners and order give.
class TransferGraph {
 public:
  explicit TransferGraph(const TraceStore& store) : store_(store) {
    for (uint32_t r = 0; r < store.ranks().size(); ++r) {
      index_of_[store.ranks()[r].info().rank] = r;
    }
    for (uint32_t r = 0; r < store.ranks().size(); ++r) AddRank(r);
  }

  absl::StatusOr<PointToPointMatches> Meetings() {
    PointToPointMatches matches;
    for (const auto& [key, channel] : channels_) {
      absl::Status status = MatchChannel(key, channel, matches.outside_window);
      if (!status.ok()) return status;
    }
    AddComponents(matches.meetings);
    return matches;
  }

 private:
  struct Vertex {
    uint32_t rank;  // index into TraceStore::ranks()
    NodeIndex node;
  };
  struct Channel {
    std::vector<uint32_t> sends, receives;  // vertices, in order
  };
  using Key = std::tuple<int32_t, int32_t, int32_t>;  // sender, receiver, tag
  struct Transfer {
    int32_t sender, receiver;
    uint32_t at;  // a vertex of its component
  };

  void AddRank(uint32_t r) {
    const RankTrace& rank = store_.ranks()[r];
    for (uint32_t i = 0; i < rank.size(); ++i) {
      const NodeIndex n(i);
      if (!IsPointToPoint(rank, n)) continue;
      const std::vector<Partner> partners = PartnersOf(store_, rank, n);
      if (partners.empty()) continue;
      const auto vertex = static_cast<uint32_t>(vertices_.size());
      vertices_.push_back({r, n});
      for (const Partner& p : partners) {
        const int32_t own = rank.info().rank;
        const int32_t tag = rank.comm(n)->tag;
        Channel& channel = channels_[p.sends ? Key(own, p.rank, tag) : Key(p.rank, own, tag)];
        (p.sends ? channel.sends : channel.receives).push_back(vertex);
      }
    }
  }

  CommSequence Sequence(const std::vector<uint32_t>& vertices) const {
    CommSequence sequence;
    sequence.rank = vertices_[vertices.front()].rank;
    for (const uint32_t v : vertices) sequence.nodes.push_back(vertices_[v].node);
    sequence.ops.assign(vertices.size(), 0);
    return sequence;
  }

  absl::Status MatchChannel(const Key& key, const Channel& channel, int64_t& outside) {
    const auto& [sender, receiver, tag] = key;
    const auto& [sends, receives] = channel;
    if (!index_of_.contains(sender) || !index_of_.contains(receiver)) {
      for (const uint32_t v : sends.empty() ? receives : sends) {
        transfers_.push_back({sender, receiver, v});
      }
      return absl::OkStatus();
    }
    int64_t shift = 0;  // of receives against sends
    if (sends.size() != receives.size()) {
      std::optional<int64_t> found;
      if (!sends.empty() && !receives.empty()) {
        found = AlignSequences(store_, Sequence(sends), Sequence(receives));
      }
      if (!found.has_value()) return Unmatched(key, channel);
      shift = *found;
    }
    for (size_t k = 0; k < sends.size(); ++k) {
      const int64_t other = static_cast<int64_t>(k) + shift;
      if (other < 0 || other >= static_cast<int64_t>(receives.size())) continue;
      edges_.emplace_back(sends[k], receives[static_cast<size_t>(other)]);
      transfers_.push_back({sender, receiver, sends[k]});
    }
    const auto low = std::max<int64_t>(0, -shift);
    const auto high =
        std::min(static_cast<int64_t>(sends.size()), static_cast<int64_t>(receives.size()) - shift);
    outside += static_cast<int64_t>(sends.size() + receives.size()) - 2 * (high - low);
    return absl::OkStatus();
  }

  absl::Status Unmatched(const Key& key, const Channel& channel) const {
    const auto& [sender, receiver, tag] = key;
    const auto& [sends, receives] = channel;
    const bool more_sends = sends.size() > receives.size();
    const Vertex odd = vertices_[more_sends ? sends[receives.size()] : receives[sends.size()]];
    const RankTrace& rank = store_.ranks()[odd.rank];
    return InvalidInput(
        "{}: rank {}, node {} ({}): no matching {} on rank {} (tag {}; {} sends, {} receives)",
        rank.info().source, rank.info().rank, rank.source_id(odd.node), store_.name(rank, odd.node),
        more_sends ? "receive" : "send", more_sends ? receiver : sender, tag, sends.size(),
        receives.size());
  }

  // Components of the graph. Two nodes of one rank cannot wait for each other, so that an edge
  // which would join them is left out: a kernel that serves several calls of its partner meets the
  // first.
  void AddComponents(std::vector<PointToPointMeeting>& meetings) const {
    std::vector<std::vector<uint32_t>> members(vertices_.size());
    std::vector<uint32_t> component(vertices_.size());
    std::iota(component.begin(), component.end(), 0U);
    for (uint32_t v = 0; v < vertices_.size(); ++v) members[v] = {v};
    for (const auto& [a, b] : edges_) {
      std::vector<uint32_t>&into = members[component[a]], &from = members[component[b]];
      if (component[a] == component[b] || ShareRank(into, from)) continue;
      const uint32_t id = component[a];
      for (const uint32_t v : from) component[v] = id;
      into.insert(into.end(), from.begin(), from.end());
      from.clear();
    }
    std::vector<std::vector<const Transfer*>> transfers(vertices_.size());
    std::vector<uint32_t> order;
    for (const Transfer& t : transfers_) {
      if (transfers[component[t.at]].empty()) order.push_back(component[t.at]);
      transfers[component[t.at]].push_back(&t);
    }
    for (const uint32_t c : order) meetings.push_back(MeetingOf(members[c], transfers[c]));
  }

  bool ShareRank(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b) const {
    return std::ranges::any_of(a, [&](uint32_t x) {
      return std::ranges::any_of(
          b, [&](uint32_t y) { return vertices_[x].rank == vertices_[y].rank; });
    });
  }

  PointToPointMeeting MeetingOf(const std::vector<uint32_t>& members,
                                const std::vector<const Transfer*>& transfers) const {
    PointToPointMeeting meeting;
    meeting.declared = true;
    std::set<int32_t> ranks;
    bool one_way = true;
    for (const Transfer* t : transfers) {
      ranks.insert({t->sender, t->receiver});
      one_way &= t->sender == transfers.front()->sender;
    }
    meeting.ranks.assign(ranks.begin(), ranks.end());
    for (const int32_t rank : ranks) meeting.missing_members += index_of_.contains(rank) ? 0 : 1;
    for (const uint32_t v : members) {
      meeting.members.emplace_back(vertices_[v].rank, vertices_[v].node);
    }
    if (ranks.size() == 2 && one_way) {
      const auto& [sender, receiver, at] = *transfers.front();
      meeting.ranks = {sender, receiver};
      meeting.communicator_name = fmt::format("send/recv {} to {}", sender, receiver);
      return meeting;  // the sender first
    }
    std::sort(meeting.members.begin(), meeting.members.end());
    meeting.communicator_name =
        ranks.size() == 2 ? fmt::format("exchange {} and {}", *ranks.begin(), *ranks.rbegin())
                          : fmt::format("exchange of ranks {}", fmt::join(ranks, ","));
    return meeting;
  }

  const TraceStore& store_;
  std::map<int32_t, uint32_t> index_of_;  // by rank number
  std::vector<Vertex> vertices_;
  std::map<Key, Channel> channels_;
  std::vector<std::pair<uint32_t, uint32_t>> edges_;  // sender's, receiver's
  std::vector<Transfer> transfers_;
};

}  // namespace

absl::StatusOr<PointToPointMatches> MatchPointToPoint(const TraceStore& store,
                                                      const std::vector<CommSequence>& sequences,
                                                      const CollectivesKnown& known) {
  auto declared = TransferGraph(store).Meetings();
  // Recordings may name partners by their rank within a group that is itself not recorded. Then
  // sends and receives do not match by rank, and partners are found by their ends.
  const bool timed = store.ranks().front().info().has_times;
  const bool ranks_are_global = declared.ok();
  if (!ranks_are_global) {
    if (!timed) return declared;
    declared = PointToPointMatches();
  }
  std::vector<CommSequence> open;
  for (const CommSequence& s : sequences) {
    if (!s.point_to_point) continue;
    CommSequence rest = s;
    const RankTrace& rank = store.ranks()[s.rank];
    if (ranks_are_global) {
      std::erase_if(rest.nodes, [&](NodeIndex n) { return !PartnersOf(store, rank, n).empty(); });
    }
    if (!rest.nodes.empty()) open.push_back(std::move(rest));
  }
  std::vector<PointToPointMeeting> found = MeetByEnds(store, open, known);
  std::move(found.begin(), found.end(), std::back_inserter(declared->meetings));
  return declared;
}

}  // namespace foretrace
