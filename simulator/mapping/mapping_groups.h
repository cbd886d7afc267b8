#pragma once
// Which devices of a mapping exchange with which.

#include <cstdint>

#include "simulator/mapping/iteration_model.h"
#include "simulator/plan/job_plan.h"

namespace foretrace {

struct MappingPlace {
  int32_t stage = 0, replica = 0, shard = 0;  // of the pipeline, the data, the tensors
};

inline int32_t RankOf(const ParallelMapping& m, const MappingPlace& at) {
  return (at.stage * m.replicas() + at.replica) * m.tensor + at.shard;
}

// Groups of a plan, by index; kNoGroup where each device would be alone.
struct MappingGroups {
  int32_t tensor = kNoGroup, data = kNoGroup, pipeline = kNoGroup, context = kNoGroup,
          expert = kNoGroup;
  // Of the shards of the weights: `data`, but where several copies of the weights are kept.
  int32_t weight = kNoGroup;
  int32_t tied = kNoGroup;    // of both copies of a table that the first and the last stage share
  int32_t tokens = kNoGroup;  // of all that divide a sequence, where a loss sums over tokens
  int32_t scale = kNoGroup;   // of all devices of a stage, where 8-bit scales are reduced
  int32_t expert_data = kNoGroup;    // of those that hold the same experts
  int32_t expert_weight = kNoGroup;  // of these, as `weight` is of `data`
  // Where exchanges of experts tell nodes apart: of those of the same place in their nodes, and of
  // those of a node.
  int32_t expert_nodes = kNoGroup, expert_peers = kNoGroup;

  int32_t of(ShardGroup group) const {
    switch (group) {
      case ShardGroup::kTensor:
        return tensor;
      case ShardGroup::kContext:
        return context;
      case ShardGroup::kTokens:
        return tokens;
      case ShardGroup::kExpertNodes:
        return expert_nodes;
      case ShardGroup::kExpertPeers:
        return expert_peers;
      default:
        return expert;
    }
  }
};

MappingGroups AddMappingGroups(const ParallelMapping& mapping, const PassTimes& passes,
                               JobPlan& plan);

}  // namespace foretrace
