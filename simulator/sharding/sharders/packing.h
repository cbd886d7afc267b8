#pragma once
// Packs tables onto ranks by longest processing time first; what the LPT sharder, the ILP and the
// search start from.

#include "simulator/sharding/sharder.h"

namespace foretrace {

// Ranks as bins with a load and the memory in use.
class RankBins {
 public:
  RankBins(const ShardingProblem& problem, const ShardingPlan* placed = nullptr);

  void Add(const Shard& shard, int32_t rank, double load);
  void Remove(const Shard& shard, int32_t rank, double load);
  bool HasRoom(const Shard& shard, int32_t rank) const;
  double load(int32_t rank) const { return load_[static_cast<size_t>(rank)]; }
  Bytes used(int32_t rank) const { return used_[static_cast<size_t>(rank)]; }
  // Ranks from the least loaded (or, `by_memory`, the least used) on; ties by number.
  std::vector<int32_t> Order(bool by_memory) const;
  int32_t Fullest() const;

 private:
  const ShardingProblem& problem_;
  std::vector<double> load_;
  std::vector<Bytes> used_;
};

// A plan that fits where one was found: by modelled cost; else by memory; else with large tables
// split over more ranks; else with tables in host memory behind a cache. The nearest miss
// otherwise. Tables with ranks in `fixed` (by table; may be empty) stay where that puts them.
ShardingPlan PackTables(const ShardingProblem& problem,
                        const std::vector<TablePlacement>& fixed = {});

// Moves and swaps shards off the most loaded rank while that lowers the largest load, keeping to
// memory.
void ImprovePacking(const ShardingProblem& problem, ShardingPlan& plan);

}  // namespace foretrace
