// The paper's greedy sharders: tables in falling order of cost, each to the rank with the least.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "simulator/base/error.h"
#include "simulator/sharding/sharder.h"

namespace foretrace {
namespace {

using TableCost = double (*)(const EmbeddingTable&);

class GreedySharder : public Sharder {
 public:
  GreedySharder(std::string_view name, TableCost cost) : name_(name), cost_(cost) {}
  std::string_view name() const override { return name_; }

  absl::StatusOr<ShardingPlan> Shard(const ShardingProblem& problem) const override {
    const ShardingTask& task = problem.task;
    if (!task.allows(PlacementKind::kTable)) {
      return Infeasible("sharder {} places whole tables, and the task's placements lack table_wise",
                        name_);
    }
    ShardingPlan plan;
    plan.tables.assign(task.tables.size(), OnRank(0));
    std::vector<size_t> order(task.tables.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return cost_(task.tables[a]) > cost_(task.tables[b]);
    });
    const MemoryVerdict fixed = MemoryOf(task, problem.dense, {"", {}});
    std::vector<double> load(static_cast<size_t>(task.gpus), 0);
    std::vector<Bytes> used(load.size(), fixed.largest);
    for (const size_t t : order) {
      const Bytes bytes =
          MemoryOf(task, ShardsOf(task.tables[t], static_cast<int32_t>(t), OnRank(0)).front())
              .total();
      // Ranks without room are passed over; where none has any, the plan will not fit.
      size_t best = load.size();
      for (size_t r = 0; r < load.size(); ++r) {
        if (used[r] + bytes > task.memory) continue;
        if (best == load.size() || load[r] < load[best]) best = r;
      }
      if (best == load.size()) {
        best = static_cast<size_t>(std::min_element(used.begin(), used.end()) - used.begin());
      }
      load[best] += cost_(task.tables[t]);
      used[best] += bytes;
      plan.tables[t] = OnRank(static_cast<int32_t>(best));
    }
    return plan;
  }

 private:
  std::string_view name_;
  TableCost cost_;
};

double E(const EmbeddingTable& x) { return static_cast<double>(x.rows); }
double D(const EmbeddingTable& x) { return static_cast<double>(x.dim); }

}  // namespace

// Cost functions of table III.
std::unique_ptr<Sharder> MakeSizeGreedySharder() {
  return std::make_unique<GreedySharder>("size_greedy",
                                         [](const EmbeddingTable& x) { return E(x); });
}
std::unique_ptr<Sharder> MakeLookupGreedySharder() {
  return std::make_unique<GreedySharder>("lookup_greedy",
                                         [](const EmbeddingTable& x) { return x.pooling * D(x); });
}
std::unique_ptr<Sharder> MakeNormLookupGreedySharder() {
  return std::make_unique<GreedySharder>("norm_lookup_greedy",
                                         [](const EmbeddingTable& x) { return x.pooling / E(x); });
}
std::unique_ptr<Sharder> MakeSizeLookupGreedySharder() {
  return std::make_unique<GreedySharder>("size_lookup_greedy", [](const EmbeddingTable& x) {
    return x.pooling * D(x) * std::log10(E(x));
  });
}

}  // namespace foretrace
