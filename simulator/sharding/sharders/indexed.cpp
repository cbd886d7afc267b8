// The paper's sharders that assign tables to ranks by index alone.

#include "simulator/base/error.h"
#include "simulator/base/split_mix.h"
#include "simulator/sharding/sharder.h"

namespace foretrace {
namespace {

absl::Status NeedsTableWise(const ShardingTask& task, std::string_view name) {
  if (task.allows(PlacementKind::kTable)) return absl::OkStatus();
  return Infeasible("sharder {} places whole tables, and the task's placements lack table_wise",
                    name);
}

class NaiveSharder : public Sharder {
 public:
  std::string_view name() const override { return "naive"; }
  absl::StatusOr<ShardingPlan> Shard(const ShardingProblem& problem) const override {
    if (const absl::Status s = NeedsTableWise(problem.task, name()); !s.ok()) return s;
    ShardingPlan plan;
    for (size_t t = 0; t < problem.task.tables.size(); ++t) {
      plan.tables.push_back(OnRank(static_cast<int32_t>(t) % problem.task.gpus));
    }
    return plan;
  }
};

class RandomSharder : public Sharder {
 public:
  std::string_view name() const override { return "random"; }
  absl::StatusOr<ShardingPlan> Shard(const ShardingProblem& problem) const override {
    if (const absl::Status s = NeedsTableWise(problem.task, name()); !s.ok()) return s;
    SplitMixSequence random(problem.seed);
    ShardingPlan plan;
    for (size_t t = 0; t < problem.task.tables.size(); ++t) {
      plan.tables.push_back(OnRank(static_cast<int32_t>(random.Below(problem.task.gpus))));
    }
    return plan;
  }
};

}  // namespace

std::unique_ptr<Sharder> MakeNaiveSharder() { return std::make_unique<NaiveSharder>(); }
std::unique_ptr<Sharder> MakeRandomSharder() { return std::make_unique<RandomSharder>(); }

}  // namespace foretrace
