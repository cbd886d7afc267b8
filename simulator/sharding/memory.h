#pragma once
// What a plan needs of each GPU's memory, and of the host's.

#include <vector>

#include "absl/status/status.h"
#include "simulator/sharding/dense_work.h"
#include "simulator/sharding/plan.h"

namespace foretrace {

struct RankMemory {
  Bytes weights;      // of tables, or of their caches
  Bytes optimizer;    // state of the tables' optimizer
  Bytes gradients;    // of data-parallel tables; others are applied as they are made
  Bytes activations;  // indices, pooled vectors and their gradients
  Bytes buffers;      // of the collectives
  Bytes dense;        // parameters, gradients, optimizer state and activations of the MLPs
  Bytes host;         // weights behind caches

  Bytes total() const { return weights + optimizer + gradients + activations + buffers + dense; }
};

struct MemoryVerdict {
  std::vector<RankMemory> ranks;
  Bytes largest;       // on any GPU
  Bytes largest_host;  // of any GPU's share of the host
  bool fits = false;
};

// What `shard` adds to its rank.
RankMemory MemoryOf(const ShardingTask& task, const Shard& shard);
MemoryVerdict MemoryOf(const ShardingTask& task, const DenseWork& dense, const ShardingPlan& plan);

// "12.3 GB".
std::string FormatGB(Bytes bytes);

}  // namespace foretrace
