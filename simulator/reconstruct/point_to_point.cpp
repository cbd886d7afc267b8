#include "simulator/reconstruct/point_to_point.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "simulator/base/error.h"
#include "simulator/reconstruct/channel_alignment.h"
#include "simulator/reconstruct/clock_noise.h"
#include "simulator/reconstruct/comm_grouping.h"
#include "simulator/reconstruct/end_spread.h"
#include "simulator/reconstruct/kernel_ends.h"

namespace foretrace {
namespace {

struct Partner {
  int32_t rank;
  bool sends;         // the node sends to it; otherwise it receives from it
  int64_t bytes = 0;  // 0: not recorded
};

// Whom a node meets, as far as the recording says.
std::vector<Partner> PartnersOf(const TraceStore& store, const RankTrace& rank, NodeIndex n) {
  std::vector<Partner> partners;
  const CommAttr* attr = rank.comm(n);
  if (attr == nullptr) return partners;
  const bool sends = rank.kind(n) != NodeKind::kRecv;
  const bool receives = rank.kind(n) != NodeKind::kSend;
  if (attr->in_splits == 0 && attr->out_splits == 0) {
    if (attr->peer >= 0 && sends) partners.push_back({attr->peer, true, attr->bytes_in.count()});
    if (attr->peer >= 0 && receives)
      partners.push_back({attr->peer, false, attr->bytes_out.count()});
    return partners;
  }
  const auto group = DeclaredRanks(store, rank, *attr);
  const auto add = [&](std::span<const int64_t> bytes, bool sending) {
    for (size_t i = 0; i < bytes.size(); ++i) {
      if (bytes[i] <= 0 || (group && i >= group->size())) continue;
      const int32_t partner = group ? (*group)[i] : static_cast<int32_t>(i);
      if (partner != rank.info().rank) partners.push_back({partner, sending, bytes[i]});
    }
  };
  if (sends) add(rank.in_splits(*attr), true);
  if (receives) add(rank.out_splits(*attr), false);
  return partners;
}

// Nodes, and the transfers between them that partners and order give.
class TransferGraph {
 public:
  // `clock_offset` by index of rank, to add to recorded times; must outlive this.
  TransferGraph(const TraceStore& store, const std::vector<SimTime>& clock_offset)
      : store_(store), clock_offset_(clock_offset) {
    for (uint32_t r = 0; r < store.ranks().size(); ++r) {
      index_of_[store.ranks()[r].info().rank] = r;
    }
    for (uint32_t r = 0; r < store.ranks().size(); ++r) AddRank(r);
  }

  absl::StatusOr<PointToPointMatches> Match() {
    PointToPointMatches matches;
    struct Matched {
      const Channel* channel;
      std::vector<Transfer> transfers;
    };
    std::vector<Matched> matched;
    std::vector<const Channel*> misfits;
    for (const auto& [key, channel] : channels_) {
      matched.push_back({&channel, {}});
      const absl::Status status = MatchChannel(key, channel, matched.back().transfers, matches);
      if (status.ok()) continue;
      if (!store_.ranks().front().info().has_times) return status;
      matched.pop_back();
      misfits.push_back(&channel);
      matches.doubts.push_back(fmt::format("{}; the kernels of these two are matched by their ends",
                                           std::string(status.message())));
    }
    for (Matched& m : matched) {
      // Recordings may number partners within a group that is itself not recorded. Then few
      // channels fit, and those that do must show it by their ends.
      if (!misfits.empty() && !EndTogether(m.transfers)) {
        misfits.push_back(m.channel);
        continue;
      }
      transfers_.insert(transfers_.end(), m.transfers.begin(), m.transfers.end());
    }
    LeaveToEnds(misfits);
    AddComponents(matches.rendezvous);
    return matches;
  }

  // Whether the node's declared partner is to be disregarded.
  bool IsLeftToEnds(uint32_t rank, NodeIndex node) const {
    return left_to_ends_.contains({rank, node.value});
  }

 private:
  struct Vertex {
    uint32_t rank;  // index into TraceStore::ranks()
    NodeIndex node;
  };
  struct End {
    uint32_t vertex;
    int64_t bytes;
  };
  struct Channel {
    std::vector<End> sends, receives;  // in order
  };
  using Key = std::tuple<int32_t, int32_t, int32_t>;  // sender, receiver, tag
  // Where the other end has no trace, `at` alone is set.
  struct Transfer {
    int32_t sender, receiver, tag;
    int64_t bytes;
    bool whole;   // no side of its channel lacks any
    uint32_t at;  // a vertex; the sender's if that has a trace
    uint32_t other = kNone;
  };
  static constexpr uint32_t kNone = 0xffffffff;

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
        (p.sends ? channel.sends : channel.receives).push_back({vertex, p.bytes});
      }
    }
  }

  CommSequence Sequence(const std::vector<End>& ends) const {
    CommSequence sequence;
    sequence.rank = vertices_[ends.front().vertex].rank;
    for (const End& end : ends) sequence.nodes.push_back(vertices_[end.vertex].node);
    sequence.ops.assign(ends.size(), 0);
    for (const End& end : ends) sequence.bytes.push_back(end.bytes);
    return sequence;
  }

  // Kernels of these channels that no other channel places.
  void LeaveToEnds(const std::vector<const Channel*>& channels) {
    std::vector<bool> placed(vertices_.size(), false);
    for (const Transfer& t : transfers_) {
      placed[t.at] = true;
      if (t.other != kNone) placed[t.other] = true;
    }
    for (const Channel* channel : channels) {
      for (const auto* side : {&channel->sends, &channel->receives}) {
        for (const auto& [v, bytes] : *side) {
          if (!placed[v]) left_to_ends_.emplace(vertices_[v].rank, vertices_[v].node.value);
        }
      }
    }
  }

  bool EndTogether(const std::vector<Transfer>& transfers) const {
    std::vector<int64_t> differences;
    for (const Transfer& t : transfers) {
      if (t.other == kNone) continue;
      differences.push_back((EndOf(t.at) - EndOf(t.other)).ps());
    }
    return differences.empty() || SpreadOfEnds(std::move(differences)).distance <= kFarthestEnds;
  }

  SimTime EndOf(uint32_t vertex) const {
    return store_.ranks()[vertices_[vertex].rank].end(vertices_[vertex].node);
  }

  absl::Status MatchChannel(const Key& key, const Channel& channel,
                            std::vector<Transfer>& transfers, PointToPointMatches& matches) const {
    const auto& [sender, receiver, tag] = key;
    const auto& [sends, receives] = channel;
    if (!index_of_.contains(sender) || !index_of_.contains(receiver)) {
      for (const auto& [v, bytes] : sends.empty() ? receives : sends) {
        transfers.push_back({sender, receiver, tag, bytes, true, v});
      }
      return absl::OkStatus();
    }
    const auto pairs = PairsOf(sends, receives);
    if (!pairs.has_value()) return Unmatched(key, channel);
    const size_t lacking = sends.size() + receives.size() - 2 * pairs->size();
    for (const auto& [s, r] : *pairs) {
      transfers.push_back({sender, receiver, tag, sends[s].bytes, lacking == 0, sends[s].vertex,
                           receives[r].vertex});
    }
    matches.unmatched += static_cast<int64_t>(lacking);
    // Pairs of neighbours all through: only edges lack something.
    const bool at_edges = pairs->empty() || (pairs->back().first - pairs->front().first ==
                                             pairs->back().second - pairs->front().second);
    if (!at_edges) {
      matches.doubts.push_back(fmt::format(
          "send/recv {} to {}, tag {}: {} of {} sends and {} receives have no other end in the "
          "recording, some amid others; the rest is paired so that it fits best",
          sender, receiver, tag, lacking, sends.size(), receives.size()));
    }
    return absl::OkStatus();
  }

  // Positions; nullopt: these are not two sides of one channel.
  std::optional<ChannelPairs> PairsOf(const std::vector<End>& sends,
                                      const std::vector<End>& receives) const {
    if (sends.empty() || receives.empty()) return std::nullopt;
    const auto shift = AlignSequences(store_, Sequence(sends), Sequence(receives));
    ChannelPairs by_order;
    for (size_t k = 0; k < sends.size() && shift.has_value(); ++k) {
      const int64_t other = static_cast<int64_t>(k) + *shift;
      if (other < 0 || other >= static_cast<int64_t>(receives.size())) continue;
      by_order.emplace_back(k, static_cast<size_t>(other));
    }
    const bool timed = store_.ranks().front().info().has_times;
    if (!timed || sends.size() == receives.size()) {
      return shift.has_value() ? std::optional(by_order) : std::nullopt;
    }
    const std::vector<ChannelEnd> from = Times(sends), to = Times(receives);
    const auto with_gaps = AlignWithGaps(from, to);
    if (!shift.has_value()) return with_gaps;
    const double noise = static_cast<double>(kClockNoise.ps());
    const bool gaps_fit = with_gaps.has_value() &&
                          MeanMisfit(from, to, *with_gaps) + noise < MeanMisfit(from, to, by_order);
    return gaps_fit ? *with_gaps : by_order;
  }

  std::vector<ChannelEnd> Times(const std::vector<End>& ends) const {
    std::vector<ChannelEnd> times;
    for (const auto& [vertex, bytes] : ends) {
      const auto& [r, node] = vertices_[vertex];
      const RankTrace& rank = store_.ranks()[r];
      times.push_back(
          {rank.start(node) + clock_offset_[r], rank.end(node) + clock_offset_[r], bytes});
    }
    return times;
  }

  absl::Status Unmatched(const Key& key, const Channel& channel) const {
    const auto& [sender, receiver, tag] = key;
    const auto& [sends, receives] = channel;
    const bool more_sends = sends.size() > receives.size();
    const Vertex odd =
        vertices_[(more_sends ? sends[receives.size()] : receives[sends.size()]).vertex];
    const RankTrace& rank = store_.ranks()[odd.rank];
    return InvalidInput(
        "{}: rank {}, node {} ({}): no matching {} on rank {} (tag {}; {} sends, {} receives)",
        rank.info().source, rank.info().rank, rank.source_id(odd.node), store_.name(rank, odd.node),
        more_sends ? "receive" : "send", more_sends ? receiver : sender, tag, sends.size(),
        receives.size());
  }

  // Components of the graph: all kernels that transfers connect, several of one rank among them
  // where one kernel serves what its partner does in two.
  void AddComponents(std::vector<PointToPointRendezvous>& rendezvous) const {
    std::vector<std::vector<uint32_t>> members(vertices_.size());
    std::vector<uint32_t> component(vertices_.size());
    std::iota(component.begin(), component.end(), 0U);
    for (uint32_t v = 0; v < vertices_.size(); ++v) members[v] = {v};
    for (const Transfer& t : transfers_) {
      if (t.other == kNone) continue;
      uint32_t keep = component[t.at], merge = component[t.other];
      if (keep == merge) continue;
      if (members[keep].size() < members[merge].size()) std::swap(keep, merge);
      for (const uint32_t v : members[merge]) component[v] = keep;
      members[keep].insert(members[keep].end(), members[merge].begin(), members[merge].end());
      members[merge].clear();
    }
    std::vector<std::vector<const Transfer*>> transfers(vertices_.size());
    std::vector<uint32_t> order;
    for (const Transfer& t : transfers_) {
      if (transfers[component[t.at]].empty()) order.push_back(component[t.at]);
      transfers[component[t.at]].push_back(&t);
    }
    for (const uint32_t c : order) rendezvous.push_back(RendezvousOf(members[c], transfers[c]));
  }

  PointToPointRendezvous RendezvousOf(std::vector<uint32_t> members,
                                      const std::vector<const Transfer*>& transfers) const {
    PointToPointRendezvous rendezvous;
    rendezvous.declared = true;
    std::set<int32_t> ranks;
    bool one_way = true;
    for (const Transfer* t : transfers) {
      ranks.insert({t->sender, t->receiver});
      one_way &= t->sender == transfers.front()->sender;
      if (t->other == kNone) continue;
      rendezvous.matched_by = t->whole && rendezvous.matched_by != MatchedBy::kAlignment
                                  ? MatchedBy::kPartner
                                  : MatchedBy::kAlignment;
    }
    rendezvous.ranks.assign(ranks.begin(), ranks.end());
    for (const int32_t rank : ranks) rendezvous.missing_members += index_of_.contains(rank) ? 0 : 1;
    const bool sender_first = ranks.size() == 2 && one_way;
    const int32_t sender = transfers.front()->sender;
    // Vertices are in order of rank and node.
    std::ranges::sort(
        members, {}, [&](uint32_t v) { return std::pair(sender_first && RankOf(v) != sender, v); });
    std::map<uint32_t, uint32_t> place;
    for (const uint32_t v : members) {
      place.emplace(v, static_cast<uint32_t>(rendezvous.members.size()));
      rendezvous.members.push_back({vertices_[v].rank, vertices_[v].node});
    }
    for (const Transfer* t : transfers) {
      if (t->other == kNone) continue;
      rendezvous.transfers.push_back({place.at(t->at), place.at(t->other), t->tag, t->bytes});
    }
    if (sender_first) {
      rendezvous.ranks = {sender, transfers.front()->receiver};
      rendezvous.kind = PointToPointKind::kOneWay;
      return rendezvous;
    }
    rendezvous.kind = PointToPointKind::kExchange;
    return rendezvous;
  }

  int32_t RankOf(uint32_t vertex) const {
    return store_.ranks()[vertices_[vertex].rank].info().rank;
  }

  const TraceStore& store_;
  const std::vector<SimTime>& clock_offset_;
  std::map<int32_t, uint32_t> index_of_;  // by rank number
  std::vector<Vertex> vertices_;
  std::map<Key, Channel> channels_;
  std::vector<Transfer> transfers_;
  std::set<std::pair<uint32_t, uint32_t>> left_to_ends_;  // index of rank, node
};

// By stream, when its first work with a recorded launch began. Work without one that is earlier
// was in flight when the recording began, if the rank has launches at all.
std::vector<SimTime> FirstLaunched(const RankTrace& rank) {
  std::vector<SimTime> first(rank.lanes().size(), SimTime::Max());
  bool launches = false;
  for (uint32_t i = 0; i < rank.size(); ++i) {
    const NodeIndex node(i);
    if (!IsDeviceKind(rank.kind(node)) || !rank.launcher(node).valid()) continue;
    SimTime& start = first[rank.lane(node).value];
    start = std::min(start, rank.start(node));
    launches = true;
  }
  if (!launches) std::ranges::fill(first, SimTime::Min());
  return first;
}

// No launch says who the partner of a kernel was that was in flight. That it meets nobody, because
// the partner's share lies before the recording, is no sign of a rank without a trace.
void DropInFlight(const TraceStore& store, PointToPointMatches& matches) {
  std::map<uint32_t, std::vector<SimTime>> first_launched;  // by rank, of those asked for
  matches.unmatched += static_cast<int64_t>(
      std::erase_if(matches.rendezvous, [&](const PointToPointRendezvous& rendezvous) {
        if (rendezvous.declared || rendezvous.members.size() > 1) return false;
        const auto& [r, kernel] = rendezvous.members.front();
        const RankTrace& rank = store.ranks()[r];
        if (rank.launcher(kernel).valid()) return false;
        const auto [known, added] = first_launched.try_emplace(r);
        if (added) known->second = FirstLaunched(rank);
        return rank.start(kernel) < known->second[rank.lane(kernel).value];
      }));
}

}  // namespace

absl::StatusOr<PointToPointMatches> MatchPointToPoint(const TraceStore& store,
                                                      const std::vector<CommSequence>& sequences,
                                                      const CollectivesKnown& known) {
  TransferGraph graph(store, known.clock_offset);
  auto declared = graph.Match();
  if (!declared.ok()) return declared;
  std::vector<CommSequence> open;
  for (const CommSequence& s : sequences) {
    if (!s.point_to_point) continue;
    CommSequence rest = s;
    const RankTrace& rank = store.ranks()[s.rank];
    std::erase_if(rest.nodes, [&](NodeIndex n) {
      return !graph.IsLeftToEnds(s.rank, n) && !PartnersOf(store, rank, n).empty();
    });
    if (!rest.nodes.empty()) open.push_back(std::move(rest));
  }
  std::vector<PointToPointRendezvous> found = MatchByEnds(store, open, known);
  std::move(found.begin(), found.end(), std::back_inserter(declared->rendezvous));
  if (store.ranks().front().info().has_times) DropInFlight(store, *declared);
  return declared;
}

}  // namespace foretrace
