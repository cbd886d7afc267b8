#pragma once
// Which ranks of a mapping exchange with which.

#include <cstdint>
#include <string>

#include "simulator/mapping/iteration_model.h"
#include "simulator/mapping/trace_emitter.h"

namespace foretrace {

struct RankPlace {
  int32_t stage = 0, replica = 0, shard = 0;  // of the pipeline, the data, the tensors
};

inline int32_t RankOf(const ParallelMapping& m, const RankPlace& at) {
  return (at.stage * m.replicas() + at.replica) * m.tensor + at.shard;
}

// Names of the groups that a rank is in; empty where it would be alone.
struct RankGroups {
  std::string tensor, data, pipeline, context, expert;
  // Of the shards of the weights: `data`, but where several copies of the weights are kept.
  std::string weight;
  std::string tied;         // of both copies of a table that the first and the last stage share
  std::string sequence;     // of all that divide a sequence, where losses balance experts there
  std::string scale;        // of all devices of a stage, where 8-bit scales are reduced
  std::string expert_data;  // of those that hold the same experts
};

// Adds them to the rank's trace.
RankGroups AddRankGroups(const ParallelMapping& m, const PassTimes& passes, const RankPlace& at,
                         TraceEmitter& out);

// One of a layer's exchanges, over the rank's group of its kind.
TraceEmitter::Message MessageOf(const ParallelMapping& m, const RankGroups& groups,
                                const PassExchange& exchange, const std::string& pass);

}  // namespace foretrace
