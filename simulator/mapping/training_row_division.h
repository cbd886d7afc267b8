#pragma once
// What a row says of how weights, gradients and optimizer states are divided over replicas.

#include <cstdint>
#include <string>

#include "simulator/mapping/parallel_mapping.h"

namespace foretrace {

struct StatedDivision {
  int32_t zero = -1;    // ParallelMapping's; -1: not said
  bool hybrid = false;  // within groups of replicas, of which each has a copy of the weights
  // Of these, "HSDP 2x64" and "HSDP, replicate degree 2, shard degree 64"; 0: not said.
  int32_t copies = 0, shards = 0;
};

// As columns of division and people say it ("ZeRO-1", "zs=1", "FSDP2", "HYBRID_SHARD").
StatedDivision DivisionIn(const std::string& sharding);

// Replicas that divide the weights among them, `within` (of a node) where it does not say; all of
// them: 0. `error`: what contradicts the mapping's replicas.
int32_t HybridShards(const StatedDivision& stated, int32_t within, const ParallelMapping& mapping,
                     std::string& error);

}  // namespace foretrace
