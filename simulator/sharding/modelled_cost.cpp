#include "simulator/sharding/modelled_cost.h"
#include "simulator/base/real_sizes.h"

#include <algorithm>

namespace foretrace {

ModelledCost::ModelledCost(const ShardingTask& task, SimulatedEvaluator& evaluator)
    : task_(task), lookups_(evaluator.lookups()), base_us_(evaluator.lookups().base_us()) {
  // The slope of the all-to-all where the tables are spread evenly.
  double columns = 0;
  for (const EmbeddingTable& t : task.tables) columns += static_cast<double>(t.dim * t.vectors());
  const double bytes = static_cast<double>(task.local_batch()) * columns * 4;
  const auto time = [&](double b) {
    return evaluator.collectives()
        .Time(CollectiveOp::kAllToAll, CommScope::kWorld, WholeBytes(b))
        .time.us();
  };
  const double us_per_byte = std::max(0.0, (time(1.5 * bytes) - time(bytes)) / (0.5 * bytes));
  us_per_column_ = 2 * us_per_byte * static_cast<double>(task.batch) * 4;
}

double ModelledCost::LookupUs(const Shard& shard) {
  const LookupTimes times = shard.kind == PlacementKind::kDataParallel
                                ? lookups_.DataParallel({&shard, 1})
                                : lookups_.ModelParallel({&shard, 1});
  return std::max(0.0, (times.forward + times.backward).us() - base_us_);
}

double ModelledCost::TransferUs(const Shard& shard) const {
  const bool sent = shard.kind == PlacementKind::kTable || shard.kind == PlacementKind::kColumn;
  return sent ? us_per_column_ *
                    static_cast<double>(shard.columns *
                                        task_.tables[static_cast<size_t>(shard.table)].vectors())
              : 0;
}

std::vector<double> ModelledCost::RankUs(const ShardingPlan& plan) {
  std::vector<double> by_rank(static_cast<size_t>(task_.gpus), 0);
  for (size_t t = 0; t < plan.tables.size(); ++t) {
    const TablePlacement& p = plan.tables[t];
    const std::vector<Shard> shards = ShardsOf(task_.tables[t], static_cast<int32_t>(t), p);
    for (size_t i = 0; i < shards.size(); ++i) {
      by_rank[static_cast<size_t>(p.ranks[i])] += ShardUs(shards[i]);
    }
  }
  return by_rank;
}

}  // namespace foretrace
