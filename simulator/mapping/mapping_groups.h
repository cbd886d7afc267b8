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
  // Of the shards of the weights: `data`, but where several copies of the weights are kept; and of
  // those that keep the same shard.
  int32_t weight = kNoGroup, copies = kNoGroup;
  int32_t second = kNoGroup;  // of those that divide a second partition of the weights
  int32_t tied = kNoGroup;    // of both copies of a table that the first and the last stage share
  int32_t tokens = kNoGroup;  // of all that divide a sequence, where a loss sums over tokens
  int32_t scale = kNoGroup;   // of all devices of a stage, where 8-bit scales are reduced
  int32_t expert_data = kNoGroup;  // of those that hold the same experts
  // Of these, as `weight` and `copies` are of `data`.
  int32_t expert_weight = kNoGroup, expert_copies = kNoGroup;
  // Where exchanges of experts tell nodes apart: of those of the same place in their nodes, and of
  // those of a node.
  int32_t expert_nodes = kNoGroup, expert_peers = kNoGroup;

  // Of those that divide gradients, and of those that then have the same share.
  struct Reducers {
    int32_t shards, copies;
  };
  Reducers reducers() const { return {weight, copies}; }
  Reducers expert_reducers() const { return {expert_weight, expert_copies}; }

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
