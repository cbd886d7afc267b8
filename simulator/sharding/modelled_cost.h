#pragma once
// The cost of shards as sharders without a simulator see it: additive over the shards of a rank.

#include <vector>

#include "simulator/sharding/evaluator.h"

namespace foretrace {

class ModelledCost {
 public:
  // Both must outlive this.
  ModelledCost(const ShardingTask& task, SimulatedEvaluator& evaluator);

  // Lookup time of a shard, forward and backward, less what every kernel costs, in microseconds.
  double LookupUs(const Shard& shard);
  // What its pooled vectors add to the all-to-alls when its rank sends the most.
  double TransferUs(const Shard& shard) const;
  double ShardUs(const Shard& shard) { return LookupUs(shard) + TransferUs(shard); }

  // By rank.
  std::vector<double> RankUs(const ShardingPlan& plan);

 private:
  const ShardingTask& task_;
  LookupCosts& lookups_;
  double base_us_ = 0;
  double us_per_column_ = 0;
};

}  // namespace foretrace
