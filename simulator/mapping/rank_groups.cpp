#include "simulator/mapping/rank_groups.h"

#include <vector>

namespace foretrace {

RankGroups AddRankGroups(const ParallelMapping& m, const PassTimes& passes, const RankPlace& at,
                         TraceEmitter& out) {
  RankGroups groups;
  const auto add = [&](const char* kind, int32_t count, auto rank) -> std::string {
    if (count < 2) return "";
    std::vector<int32_t> ranks;
    for (int32_t i = 0; i < count; ++i) ranks.push_back(rank(i));
    return out.AddGroup(kind, ranks);
  };
  groups.tensor = add("tensor", m.tensor, [&](int i) {
    return RankOf(m, {at.stage, at.replica, i});
  });
  groups.data = add("data", m.replicas(), [&](int i) {
    return RankOf(m, {at.stage, i, at.shard});
  });
  // Of all replicas their weights' gradients are reduced, as one step; gathered among the shards.
  const int32_t lead = at.replica - at.replica % m.shards();
  groups.weight = m.hybrid == 0 ? groups.data : add("shards", m.shards(), [&](int i) {
    return RankOf(m, {at.stage, lead + i, at.shard});
  });
  if (passes.scale_reduction > SimTime()) {
    groups.scale = add("scales", m.tensor * m.replicas(), [&](int i) {
      return RankOf(m, {at.stage, i / m.tensor, i % m.tensor});
    });
  }
  const bool end = at.stage == 0 || at.stage + 1 == m.pipeline;
  if (passes.tied_reduction > SimTime() && end) {
    groups.tied = add("tied", 2, [&](int i) {
      return RankOf(m, {i * (m.pipeline - 1), at.replica, at.shard});
    });
  }
  groups.pipeline = add("pipeline", m.pipeline, [&](int i) {
    return RankOf(m, {i, at.replica, at.shard});
  });
  const int32_t first = at.replica - at.replica % m.context;
  groups.context = add("context", m.context, [&](int i) {
    return RankOf(m, {at.stage, first + i, at.shard});
  });
  if (passes.balance.time > SimTime()) {
    groups.sequence = add("sequence", m.tensor * m.context, [&](int i) {
      return RankOf(m, {at.stage, first + i / m.tensor, i % m.tensor});
    });
  }
  // Of the groups of tensor-parallel neighbours, or of single devices, in the order of ranks.
  const bool single = m.expert_width() == 1;
  const int32_t index = single ? at.replica * m.tensor + at.shard : at.replica;
  const auto rank_of = [&](int32_t group) {
    return single ? RankOf(m, {at.stage, group / m.tensor, group % m.tensor})
                  : RankOf(m, {at.stage, group, at.shard});
  };
  const int32_t expert = index - index % m.expert;
  groups.expert = add("expert", m.expert, [&](int i) { return rank_of(expert + i); });
  const int32_t mine = index % m.expert;
  groups.expert_data =
      add("expert_data", m.expert_replicas(), [&](int i) { return rank_of(i * m.expert + mine); });
  return groups;
}

TraceEmitter::Message MessageOf(const ParallelMapping& m, const RankGroups& groups,
                                const PassExchange& e, const std::string& pass) {
  const auto message = [&](const char* what, const std::string& group, int32_t members) {
    return TraceEmitter::Message{
        NodeKind::kCollective, e.op, what + pass, group, members, e.bytes, e.time};
  };
  switch (e.group) {
    case ShardGroup::kTensor:
      return message(e.op == CollectiveOp::kAllReduce   ? "all-reduce "
                     : e.op == CollectiveOp::kAllGather ? "gather "
                                                        : "scatter ",
                     groups.tensor, m.tensor);
    case ShardGroup::kContext:
      return message(m.ulysses ? "heads " : "keys and values ", groups.context, m.context);
    default:
      return message("experts ", groups.expert, m.expert);
  }
}

}  // namespace foretrace
