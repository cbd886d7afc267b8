#include "simulator/mapping/mapping_groups.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

namespace foretrace {
namespace {

class GroupAdder {
 public:
  GroupAdder(const ParallelMapping& m, JobPlan& plan) : m_(m), plan_(plan) {}

  // `member`: rank of member i of the group that a device at a place is in.
  using Member = std::function<int32_t(const MappingPlace& at, int32_t i)>;
  int32_t Add(const char* kind, int32_t count, const Member& member, bool ends_alone = false) {
    if (count < 2) return kNoGroup;
    std::vector<std::vector<int32_t>> sets;
    for (int32_t s = 0; s < m_.pipeline; ++s) {
      if (ends_alone && s > 0 && s + 1 < m_.pipeline) continue;
      for (int32_t d = 0; d < m_.replicas(); ++d) {
        for (int32_t t = 0; t < m_.tensor; ++t) {
          const MappingPlace at{s, d, t};
          if (member(at, 0) != RankOf(m_, at)) continue;  // its first member adds it
          std::vector<int32_t> ranks;
          for (int32_t i = 0; i < count; ++i) ranks.push_back(member(at, i));
          sets.push_back(std::move(ranks));
        }
      }
    }
    return plan_.AddGroup(kind, std::move(sets));
  }

 private:
  const ParallelMapping& m_;
  JobPlan& plan_;
};

// Of the stages that hold the same layers: the one itself, under DualPipe also its mirror image,
// the one of the first half first.
int32_t StageOfCopy(const ParallelMapping& m, int32_t stage, int32_t copy) {
  if (!m.dual()) return stage;
  const int32_t first = std::min(stage, m.pipeline - 1 - stage);
  return copy == 0 ? first : m.pipeline - 1 - first;
}

// Experts are divided over groups of tensor-parallel neighbours, or over single devices, in the
// order of ranks.
void AddExpertGroups(const ParallelMapping& m, int32_t nodes, GroupAdder& groups,
                     MappingGroups& out) {
  const bool single = m.expert_width() == 1;
  const auto index = [&m, single](const MappingPlace& at) {
    return single ? at.replica * m.tensor + at.shard : at.replica;
  };
  const auto rank_of = [&m, single](const MappingPlace& at, int32_t group) {
    return single ? RankOf(m, {at.stage, group / m.tensor, group % m.tensor})
                  : RankOf(m, {at.stage, group, at.shard});
  };
  out.expert = groups.Add("expert", m.expert, [&](const MappingPlace& at, int32_t i) {
    return rank_of(at, index(at) - index(at) % m.expert + i);
  });
  if (nodes > 1 && nodes < m.expert) {
    const int32_t peers = m.expert / nodes;
    out.expert_nodes = groups.Add("expert_nodes", nodes, [&](const MappingPlace& at, int32_t i) {
      const int32_t place = index(at), first = place - place % m.expert;
      return rank_of(at, first + i * peers + place % peers);
    });
    out.expert_peers = groups.Add("expert_peers", peers, [&](const MappingPlace& at, int32_t i) {
      return rank_of(at, index(at) - index(at) % peers + i);
    });
  }
  out.expert_data =
      groups.Add("expert_data", m.expert_copies(), [&](const MappingPlace& at, int32_t i) {
        const int32_t part = i % m.expert_replicas();
        const MappingPlace other{StageOfCopy(m, at.stage, i / m.expert_replicas()), at.replica,
                                 at.shard};
        return rank_of(other, part * m.expert + index(at) % m.expert);
      });
  out.expert_weight = out.expert_data;
  const int32_t shards = m.expert_shards();
  if (m.hybrid == 0 || m.zero < 2) return;
  // What each has alone comes at most from its host, which is a step of all that have it.
  if (shards > 1) {
    out.expert_weight = groups.Add("expert_shards", shards, [&](const MappingPlace& at, int32_t i) {
      const int32_t block = index(at) / m.expert, first = block - block % shards;
      return rank_of(at, (first + i) * m.expert + index(at) % m.expert);
    });
  }
  const auto copy = [&](const MappingPlace& at, int32_t i) {
    const int32_t shard = index(at) / m.expert % shards;
    return rank_of(at, (shard + i * shards) * m.expert + index(at) % m.expert);
  };
  out.expert_copies = groups.Add("expert_copies", m.expert_copies() / shards, copy);
}

}  // namespace

MappingGroups AddMappingGroups(const ParallelMapping& m, const PassTimes& passes, JobPlan& plan) {
  GroupAdder groups(m, plan);
  MappingGroups out;
  out.tensor = groups.Add("tensor", m.tensor, [&](const MappingPlace& at, int32_t i) {
    return RankOf(m, {at.stage, at.replica, i});
  });
  out.data = groups.Add("data", m.copies(), [&](const MappingPlace& at, int32_t i) {
    return RankOf(m, {StageOfCopy(m, at.stage, i / m.replicas()), i % m.replicas(), at.shard});
  });
  const auto shards = [&](const MappingPlace& at, int32_t i) {
    return RankOf(m, {at.stage, at.replica - at.replica % m.shards() + i, at.shard});
  };
  out.weight = out.data;
  if (m.hybrid > 0 && m.zero >= 2) {
    out.weight = groups.Add("shards", m.shards(), shards);
    out.copies = groups.Add("copies", m.shard_groups(), [&](const MappingPlace& at, int32_t i) {
      return RankOf(m, {at.stage, at.replica % m.shards() + i * m.shards(), at.shard});
    });
  }
  out.second = groups.Add("second shards", m.second_shards, [&](const MappingPlace& at, int32_t i) {
    return RankOf(m, {at.stage, at.replica - at.replica % m.second_shards + i, at.shard});
  });
  if (passes.scale_reduction > SimTime()) {
    out.scale =
        groups.Add("scales", m.tensor * m.replicas(), [&](const MappingPlace& at, int32_t i) {
          return RankOf(m, {at.stage, i / m.tensor, i % m.tensor});
        });
  }
  if (passes.tied_reduction > SimTime()) {
    const auto tied = [&](const MappingPlace& at, int32_t i) {
      return RankOf(m, {i * (m.pipeline - 1), at.replica, at.shard});
    };
    out.tied = groups.Add("tied", 2, tied, /*ends_alone=*/true);
  }
  out.pipeline = groups.Add("pipeline", m.pipeline, [&](const MappingPlace& at, int32_t i) {
    return RankOf(m, {i, at.replica, at.shard});
  });
  const auto first = [&](const MappingPlace& at) { return at.replica - at.replica % m.context; };
  out.context = groups.Add("context", m.context, [&](const MappingPlace& at, int32_t i) {
    return RankOf(m, {at.stage, first(at) + i, at.shard});
  });
  const PassExchanges::List& exchanges = passes.layer_exchanges.forward;
  if (std::any_of(exchanges.begin(), exchanges.end(),
                  [](const PassExchange& e) { return e.group == ShardGroup::kTokens; })) {
    out.tokens =
        groups.Add("sequence", m.tensor * m.context, [&](const MappingPlace& at, int32_t i) {
          return RankOf(m, {at.stage, first(at) + i / m.tensor, i % m.tensor});
        });
  }
  AddExpertGroups(m, passes.expert_nodes, groups, out);
  return out;
}

}  // namespace foretrace
