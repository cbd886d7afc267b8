#include "simulator/reconstruct/comm_sequence.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "absl/container/flat_hash_map.h"

namespace foretrace {
namespace {

bool IsFusedExchange(const RankTrace& rank, NodeIndex n) {
  return rank.kind(n) == NodeKind::kCollective && rank.collective_op(n) == CollectiveOp::kSendRecv;
}

// What the members of one collective must agree on.
uint64_t AgreedPart(const RankTrace& rank, NodeIndex n) {
  return static_cast<uint64_t>(rank.collective_op(n));
}

// Sizes of gathers, scatters and all-to-alls may differ between members; those of reductions and
// broadcasts may not, but are not always recorded.
int64_t AgreedBytes(const RankTrace& rank, NodeIndex n) {
  if (rank.kind(n) != NodeKind::kCollective) return 0;
  const CollectiveOp op = rank.collective_op(n);
  if (op != CollectiveOp::kAllReduce && op != CollectiveOp::kBroadcast &&
      op != CollectiveOp::kReduce) {
    return 0;
  }
  const CommAttr* attr = rank.comm(n);
  return attr == nullptr ? 0 : attr->bytes_in.count();
}

}  // namespace

bool IsPointToPoint(const RankTrace& rank, NodeIndex n) {
  return rank.kind(n) == NodeKind::kSend || rank.kind(n) == NodeKind::kRecv ||
         IsFusedExchange(rank, n);
}

bool Agree(const CommSequence& a, size_t i, const CommSequence& b, size_t j) {
  return a.ops[i] == b.ops[j];
}

bool AgreeInSize(const CommSequence& a, size_t i, const CommSequence& b, size_t j) {
  return a.bytes[i] == 0 || b.bytes[j] == 0 || a.bytes[i] == b.bytes[j];
}

namespace {

// The declared group of that name that the rank is in.
std::optional<std::vector<int32_t>> RanksOf(const TraceStore& store, const RankTrace& rank,
                                            std::string_view name, int32_t group_size) {
  const auto all_ranks = [&] {
    std::vector<int32_t> ranks(store.world_size());
    for (int32_t r = 0; r < store.world_size(); ++r) ranks[r] = r;
    return ranks;
  };
  for (const ProcessGroup& group : store.process_groups().named(name)) {
    if (group.ranks.empty()) {
      if (group_size > 0 && group_size != store.world_size()) return std::nullopt;
      return all_ranks();
    }
    if (group.Has(rank.info().rank)) return group.ranks;
  }
  // Symbolic traces use "" and "0" for the whole job without declaring it.
  if (!rank.info().has_times && (name.empty() || name == "0")) return all_ranks();
  return std::nullopt;
}

}  // namespace

std::optional<std::vector<int32_t>> DeclaredRanks(const TraceStore& store, const RankTrace& rank,
                                                  const CommAttr& attr) {
  if (!attr.group.valid()) return std::nullopt;
  return RanksOf(store, rank, store.strings().Get(attr.group), attr.group_size);
}

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
        const auto [known, first] =
            is_declared.emplace(std::pair(attr->group.value, attr->group_size), false);
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
        // What has no name, users name by its stream.
        const std::string& label = rank.lane_at(s.lane).label;
        if (s.group_name.empty() && !p2p && rank.info().has_times) {
          s.declared_ranks = RanksOf(store, rank, label, 0);
          if (s.declared_ranks.has_value()) s.group_name = label;
        }
        s.declared_size = attr ? attr->group_size : 0;
        s.point_to_point = p2p;
        sequences.push_back(std::move(s));
      }
      CommSequence& s = sequences[it->second];
      s.nodes.push_back(n);
      s.ops.push_back(AgreedPart(rank, n));
      s.bytes.push_back(AgreedBytes(rank, n));
    }
  }
  for (CommSequence& s : sequences) {
    s.signature = s.ops.size();
    for (const uint64_t op : s.ops) s.signature = MixHash(s.signature, op);
  }
  return sequences;
}

}  // namespace foretrace
