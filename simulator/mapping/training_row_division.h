#pragma once
// What a row says of how weights, gradients and optimizer states are divided over replicas.

#include <cstdint>
#include <string>

#include "simulator/mapping/parallel_mapping.h"
#include "simulator/mapping/training_row_fields.h"

namespace foretrace {

struct StatedDivision {
  int32_t zero = -1;    // ParallelMapping's; -1: not said
  bool hybrid = false;  // within groups of replicas, of which each has a copy of the weights
  // Of these, "HSDP 2x64" and "HSDP, replicate degree 2, shard degree 64"; 0: not said.
  int32_t copies = 0, shards = 0;
  std::string column;       // that says so
  bool by_columns = false;  // of copies or shards
  bool whole = false;       // these leave every replica a whole copy, as DDP does
};

// As columns of division and people say it ("ZeRO-1", "zs=1", "FSDP2", "HYBRID_SHARD").
StatedDivision DivisionIn(const std::string& sharding);
// What a row says of it: its column sharding, or Megatron's switch of the distributed optimizer.
std::string ShardingOf(const Fields& f);

// The same with what the note says of Megatron Core's optimizer instances, and the columns of
// copies and of shards (dp_replicate and dp_shard, of which -1 is all: torchtitan's
// data_parallel_replicate_degree and data_parallel_shard_degree). `error`: columns that are no
// numbers of them, or that contradict `sharding`. Of a row whose degrees are read.
StatedDivision DivisionOfRow(const Fields& f, const ParallelMapping& mapping, std::string& error);

// Replicas that divide the weights among them, `within` (of a node) where it does not say; all of
// them: 0. `error`: what contradicts the mapping's replicas.
int32_t HybridShards(const StatedDivision& stated, int32_t within, const ParallelMapping& mapping,
                     std::string& error);

}  // namespace foretrace
