#include "simulator/trace/infer/comm_sequence.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "simulator/base/error.h"

namespace foretrace {
namespace {

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15ULL + (hash << 6) + (hash >> 2);
  return hash;
}

bool IsFusedExchange(const RankTrace& rank, NodeIndex n) {
  return rank.kind(n) == NodeKind::kCollective &&
         rank.collective_op(n) == CollectiveOp::kSendRecv;
}

bool IsPointToPoint(const RankTrace& rank, NodeIndex n) {
  return rank.kind(n) == NodeKind::kSend || rank.kind(n) == NodeKind::kRecv ||
         IsFusedExchange(rank, n);
}

// What the members of one collective must agree on. Sizes of gathers, scatters and all-to-alls may
// differ between members; those of reductions and broadcasts may not, but are not always recorded.
uint64_t AgreedPart(const RankTrace& rank, NodeIndex n) {
  return static_cast<uint64_t>(rank.collective_op(n));
}

// Members in group order where the group is declared with its ranks, or declared as "all ranks".
std::optional<std::vector<int32_t>> DeclaredRanks(const TraceStore& store, const RankTrace& rank,
                                                  const CommAttr& attr) {
  const std::string_view name = store.strings().Get(attr.group);
  const auto all_ranks = [&] {
    std::vector<int32_t> ranks(store.world_size());
    for (int32_t r = 0; r < store.world_size(); ++r) ranks[r] = r;
    return ranks;
  };
  // Several groups can share a name when frameworks number them per process ("NAME@r0-r1-...").
  for (auto it = store.process_groups().lower_bound(name);
       it != store.process_groups().end() && it->first.starts_with(name); ++it) {
    if (it->first != name && !it->first.starts_with(std::string(name) + "@")) continue;
    const std::vector<int32_t>& ranks = it->second.ranks;
    if (ranks.empty()) {
      if (attr.group_size > 0 && attr.group_size != store.world_size()) return std::nullopt;
      return all_ranks();
    }
    if (std::find(ranks.begin(), ranks.end(), rank.info().rank) != ranks.end()) return ranks;
  }
  // Symbolic traces use "" and "0" for the whole job without declaring it.
  if (!rank.info().has_times && (name.empty() || name == "0")) return all_ranks();
  return std::nullopt;
}

}  // namespace

std::string DescribeCommOp(const RankTrace& rank, NodeIndex node) {
  const CommAttr* attr = rank.comm(node);
  const std::string_view op = rank.kind(node) == NodeKind::kCollective
                                  ? Name(rank.collective_op(node))
                                  : Name(rank.kind(node));
  if (attr == nullptr || attr->bytes_in.count() == 0) return std::string(op);
  return fmt::format("{} of {} bytes", op, attr->bytes_in.count());
}

std::vector<CommSequence> CollectCommSequences(const TraceStore& store) {
  std::vector<CommSequence> sequences;
  for (uint32_t r = 0; r < store.ranks().size(); ++r) {
    const RankTrace& rank = store.ranks()[r];
    // (point to point, declared group, lane) -> sequence
    absl::flat_hash_map<std::tuple<bool, uint32_t, uint32_t>, size_t> index;
    // Whether a group's members are declared, asked once per group and size.
    absl::flat_hash_map<std::pair<uint32_t, int32_t>, bool> is_declared;
    for (uint32_t i = 0; i < rank.size(); ++i) {
      const NodeIndex n(i);
      if (!IsCommunicationKind(rank.kind(n))) continue;
      const bool p2p = IsPointToPoint(rank, n);
      const CommAttr* attr = rank.comm(n);
      const bool named = attr != nullptr && attr->group.valid();
      bool declared = false;
      if (named) {
        const auto [known, first] = is_declared.emplace(
            std::pair(attr->group.value, attr->group_size), false);
        if (first) known->second = DeclaredRanks(store, rank, *attr).has_value();
        declared = known->second;
      }
      const uint32_t lane = declared ? LaneIndex::kNone : rank.lane(n).value;
      const auto [it, inserted] = index.emplace(
          std::tuple(p2p, named ? attr->group.value : StringId::kNone, lane), sequences.size());
      if (inserted) {
        CommSequence s;
        s.rank = r;
        s.lane = rank.lane(n);
        if (named) s.group_name = store.strings().Get(attr->group);
        if (declared) s.declared_ranks = DeclaredRanks(store, rank, *attr);
        s.declared_size = attr ? attr->group_size : 0;
        s.point_to_point = p2p;
        sequences.push_back(std::move(s));
      }
      CommSequence& s = sequences[it->second];
      s.nodes.push_back(n);
      s.ops.push_back(AgreedPart(rank, n));
    }
  }
  for (CommSequence& s : sequences) {
    s.signature = s.ops.size();
    for (const uint64_t op : s.ops) s.signature = Mix(s.signature, op);
  }
  return sequences;
}

namespace {

struct Endpoint {
  uint32_t rank;
  NodeIndex node;
};

absl::StatusOr<std::vector<PointToPointPair>> PairDeclared(const TraceStore& store) {
  std::map<int32_t, uint32_t> index_of;
  for (uint32_t r = 0; r < store.ranks().size(); ++r) index_of[store.ranks()[r].info().rank] = r;
  // (sender, receiver, tag) -> sends and receives in order
  std::map<std::tuple<int32_t, int32_t, int32_t>, std::pair<std::vector<Endpoint>, std::vector<Endpoint>>>
      channels;
  for (uint32_t r = 0; r < store.ranks().size(); ++r) {
    const RankTrace& rank = store.ranks()[r];
    for (uint32_t i = 0; i < rank.size(); ++i) {
      const NodeIndex n(i);
      const CommAttr* attr = rank.comm(n);
      if (attr == nullptr || attr->peer < 0) continue;
      if (rank.kind(n) == NodeKind::kSend) {
        channels[{rank.info().rank, attr->peer, attr->tag}].first.push_back({r, n});
      } else if (rank.kind(n) == NodeKind::kRecv) {
        channels[{attr->peer, rank.info().rank, attr->tag}].second.push_back({r, n});
      }
    }
  }
  std::vector<PointToPointPair> pairs;
  for (const auto& [key, channel] : channels) {
    const auto& [sender, receiver, tag] = key;
    const auto& [sends, receives] = channel;
    PointToPointPair base;
    base.communicator_name = fmt::format("send/recv {} to {}", sender, receiver);
    base.ranks = {sender, receiver};
    base.declared = true;
    const bool both = index_of.contains(sender) && index_of.contains(receiver);
    if (!both) {
      base.missing_members = 1;
      for (const Endpoint& e : sends.empty() ? receives : sends) {
        pairs.push_back(base);
        pairs.back().members = {{e.rank, e.node}};
      }
      continue;
    }
    if (sends.size() != receives.size()) {
      const bool more_sends = sends.size() > receives.size();
      const Endpoint& odd = more_sends ? sends[receives.size()] : receives[sends.size()];
      const RankTrace& rank = store.ranks()[odd.rank];
      return InvalidInput(
          "{}: rank {}, node {} ({}): no matching {} on rank {} (tag {}; {} sends, {} receives)",
          rank.info().source, rank.info().rank, rank.source_id(odd.node),
          store.name(rank, odd.node), more_sends ? "receive" : "send",
          more_sends ? receiver : sender, tag, sends.size(), receives.size());
    }
    for (size_t k = 0; k < sends.size(); ++k) {
      pairs.push_back(base);
      pairs.back().members = {{sends[k].rank, sends[k].node}, {receives[k].rank, receives[k].node}};
    }
  }
  return pairs;
}

// A send meets a receive; what a fused exchange holds is not known.
bool Complement(const TraceStore& store, const CommSequence& a, const CommSequence& b) {
  for (size_t k = 0; k < a.nodes.size(); ++k) {
    const NodeKind kind_a = store.ranks()[a.rank].kind(a.nodes[k]);
    const NodeKind kind_b = store.ranks()[b.rank].kind(b.nodes[k]);
    const bool fused = kind_a == NodeKind::kCollective || kind_b == NodeKind::kCollective;
    if (!fused && kind_a == kind_b) return false;
  }
  return true;
}

// Median distance between the ends of the k-th operations.
int64_t MedianEndDistance(const TraceStore& store, const CommSequence& a, const CommSequence& b) {
  std::vector<int64_t> distances;
  for (size_t k = 0; k < a.nodes.size(); ++k) {
    distances.push_back(std::abs(
        (store.ranks()[a.rank].end(a.nodes[k]) - store.ranks()[b.rank].end(b.nodes[k])).ps()));
  }
  std::nth_element(distances.begin(), distances.begin() + distances.size() / 2, distances.end());
  return distances[distances.size() / 2];
}

}  // namespace

absl::StatusOr<std::vector<PointToPointPair>> PairSendsAndReceives(
    const TraceStore& store, const std::vector<CommSequence>& sequences) {
  auto declared = PairDeclared(store);
  // Recordings name peers by their rank within the group where the group itself is not recorded.
  // Then sends and receives do not match by global rank, and partners are found by their ends.
  const bool timed = store.ranks().front().info().has_times;
  const bool peers_are_global = declared.ok();
  if (!peers_are_global) {
    if (!timed) return declared;
    declared = std::vector<PointToPointPair>();
  }
  std::vector<PointToPointPair>& pairs = *declared;
  std::vector<const CommSequence*> open;
  for (const CommSequence& s : sequences) {
    if (!s.point_to_point) continue;
    const CommAttr* attr = store.ranks()[s.rank].comm(s.nodes.front());
    const bool has_peer = store.ranks()[s.rank].kind(s.nodes.front()) != NodeKind::kCollective &&
                          attr != nullptr && attr->peer >= 0;
    if (!has_peer || !peers_are_global) open.push_back(&s);
  }
  // Mutual nearest partners first.
  struct Candidate {
    int64_t distance;
    size_t a;
    size_t b;
  };
  std::vector<Candidate> candidates;
  for (size_t a = 0; a < open.size(); ++a) {
    for (size_t b = a + 1; b < open.size(); ++b) {
      if (open[a]->rank == open[b]->rank || open[a]->nodes.size() != open[b]->nodes.size()) continue;
      if (!Complement(store, *open[a], *open[b])) continue;
      candidates.push_back({MedianEndDistance(store, *open[a], *open[b]), a, b});
    }
  }
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& x, const Candidate& y) {
    return std::tie(x.distance, x.a, x.b) < std::tie(y.distance, y.a, y.b);
  });
  std::vector<bool> taken(open.size(), false);
  for (const Candidate& c : candidates) {
    if (taken[c.a] || taken[c.b]) continue;
    taken[c.a] = taken[c.b] = true;
    const int32_t rank_a = store.ranks()[open[c.a]->rank].info().rank;
    const int32_t rank_b = store.ranks()[open[c.b]->rank].info().rank;
    for (size_t k = 0; k < open[c.a]->nodes.size(); ++k) {
      PointToPointPair pair;
      pair.communicator_name = fmt::format("exchange {} and {}", rank_a, rank_b);
      pair.ranks = {rank_a, rank_b};
      pair.members = {{open[c.a]->rank, open[c.a]->nodes[k]}, {open[c.b]->rank, open[c.b]->nodes[k]}};
      pairs.push_back(std::move(pair));
    }
  }
  for (size_t s = 0; s < open.size(); ++s) {
    if (taken[s]) continue;
    const int32_t rank = store.ranks()[open[s]->rank].info().rank;
    for (const NodeIndex n : open[s]->nodes) {
      PointToPointPair pair;
      pair.communicator_name = fmt::format("exchange of rank {} with an unknown partner", rank);
      pair.ranks = {rank};
      pair.missing_members = 1;
      pair.members = {{open[s]->rank, n}};
      pairs.push_back(std::move(pair));
    }
  }
  return declared;
}

}  // namespace foretrace
