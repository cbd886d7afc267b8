#include "simulator/sharding/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace foretrace {
namespace {

constexpr int64_t kStateBytes = 4;   // optimizer state is fp32
constexpr int64_t kPooledBytes = 4;  // pooled vectors are fp32
constexpr int64_t kIndexBytes = 8;

void Add(const RankMemory& part, RankMemory& sum) {
  sum.weights += part.weights;
  sum.optimizer += part.optimizer;
  sum.gradients += part.gradients;
  sum.activations += part.activations;
  sum.buffers += part.buffers;
  sum.dense += part.dense;
  sum.host += part.host;
}

}  // namespace

RankMemory MemoryOf(const ShardingTask& task, const Shard& shard) {
  const EmbeddingTable& table = task.tables[static_cast<size_t>(shard.table)];
  RankMemory memory;
  const Bytes weights(shard.rows * shard.columns * ElementSize(table.dtype));
  memory.weights = weights;
  if (shard.uvm) {
    memory.host = weights;
    memory.weights =
        Bytes(std::llround(static_cast<double>(weights.count()) * task.uvm.cache_ratio));
  }
  const int64_t states = OptimizerStates(task.optimizer);
  const Bytes state(states * kStateBytes *
                    (task.rowwise ? shard.rows : shard.rows * shard.columns));
  if (shard.uvm && !task.rowwise) {
    memory.host += state;  // LookupCosts: not behind the cache
  } else {
    memory.optimizer = state;
  }
  const bool copy = shard.kind == PlacementKind::kDataParallel;
  const int64_t samples = copy ? task.local_batch() : task.batch;
  const double share = static_cast<double>(shard.rows) / static_cast<double>(table.rows);
  const double indices = static_cast<double>(samples) * table.pooling * share;
  // Pooled vectors and, later, their gradients; indices and the offsets of the samples.
  const int64_t bags = samples * table.vectors();
  memory.activations =
      Bytes(2 * bags * shard.columns * kPooledBytes + (std::llround(indices) + bags) * kIndexBytes);
  if (copy) {
    // A dense gradient, and an optimizer that knows no rows.
    memory.gradients = weights;
    memory.optimizer = Bytes(states * kStateBytes * shard.rows * shard.columns);
  }
  return memory;
}

MemoryVerdict MemoryOf(const ShardingTask& task, const DenseWork& dense, const ShardingPlan& plan) {
  MemoryVerdict verdict;
  verdict.ranks.resize(static_cast<size_t>(task.gpus));
  const std::vector<std::vector<Shard>> by_rank = ShardsByRank(task, plan);
  // Every rank receives the pooled vectors of its samples from all tables, and sends back gradients
  // of the same size.
  int64_t columns = 0;
  for (const EmbeddingTable& t : task.tables) columns += t.dim * t.vectors();
  for (size_t r = 0; r < by_rank.size(); ++r) {
    RankMemory& memory = verdict.ranks[r];
    for (const Shard& s : by_rank[r]) Add(MemoryOf(task, s), memory);
    memory.buffers = Bytes(2 * task.local_batch() * columns * kPooledBytes);
    memory.dense =
        Bytes(dense.parameters.count() * (2 + OptimizerStates(task.optimizer))) + dense.activations;
    verdict.largest = std::max(verdict.largest, memory.total());
    verdict.largest_host = std::max(verdict.largest_host, memory.host);
  }
  verdict.fits = verdict.largest <= task.memory && (verdict.largest_host.count() == 0 ||
                                                    verdict.largest_host <= task.uvm.host_memory);
  return verdict;
}

std::string FormatGB(Bytes bytes) {
  return fmt::format("{:.2f} GB", static_cast<double>(bytes.count()) * 1e-9);
}

}  // namespace foretrace
