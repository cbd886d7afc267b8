// Random plans of random tasks: the ranks that decide give the time of all, and the plan's traces
// replay to it, both to the bit.

#include <gtest/gtest.h>

#include <cmath>

#include "simulator/base/split_mix.h"
#include "simulator/engine/replay.h"
#include "simulator/sharding/evaluator.h"
#include "tests/support/sharding_tasks.h"

namespace foretrace {
namespace {

ShardingTask RandomTask(int32_t gpus, SplitMixSequence& random) {
  ShardingTask task = MakeTask(gpus, int64_t{256} * gpus);
  task.exchange_indices = random.Below(2) == 0;
  const int64_t tables = 1 + random.Below(12);
  for (int64_t t = 0; t < tables; ++t) {
    task.tables.push_back(MakeTable(fmt::format("t{}", t), 1000 << random.Below(12),
                                    16 << random.Below(4), std::exp2(7 * random.Uniform()),
                                    task.batch, 0.5 + random.Uniform()));
  }
  return task;
}

// `ranks_per_node` ranks a node; any mixture of kinds, or whole tables and columns alone.
ShardingPlan RandomPlan(const ShardingTask& task, int32_t ranks_per_node, bool mixed,
                        SplitMixSequence& random) {
  ShardingPlan plan;
  for (size_t t = 0; t < task.tables.size(); ++t) {
    const auto first = static_cast<int32_t>(random.Below(task.gpus));
    switch (random.Below(mixed ? 5 : 2)) {
      case 0:
        plan.tables.push_back(OnRank(first));
        break;
      case 1:
        plan.tables.push_back({PlacementKind::kColumn, {first, (first + 1) % task.gpus}, false});
        break;
      case 2:
        plan.tables.push_back(OnAllRanks(PlacementKind::kRow, task.gpus));
        break;
      case 3:
        plan.tables.push_back(OnAllRanks(PlacementKind::kDataParallel, task.gpus));
        break;
      default:
        plan.tables.push_back(OnNode(first / ranks_per_node, ranks_per_node));
    }
  }
  return plan;
}

struct Platform {
  const char* name;
  int32_t gpus;
};
constexpr Platform kPlatforms[] = {{"paper-4xa100", 4}, {"dgx-a100", 8}, {"h100-cluster-10", 16}};

TEST(ShardingTraces, ReplayToTheTimeOfTheEvaluation) {
  SplitMixSequence random(11);
  for (int i = 0; i < 60; ++i) {
    const Platform& platform = kPlatforms[i % 3];
    const ShardingTask task = RandomTask(platform.gpus, random);
    const JobSemantics semantics = i % 2 == 0 ? JobSemantics::kFull : JobSemantics::kAlgorithm1;
    const auto evaluator = TestEvaluator(task, semantics, platform.name);
    const ShardingPlan plan = RandomPlan(task, evaluator->ranks_per_node(), i % 4 != 0, random);
    ASSERT_TRUE(CheckPlan(task, plan, evaluator->ranks_per_node()).ok());
    const auto folded = evaluator->IterationTime(plan);
    const auto whole = evaluator->Evaluate(plan);
    ASSERT_TRUE(folded.ok() && whole.ok()) << folded.status() << whole.status();
    EXPECT_EQ(*folded, whole->iteration) << "plan " << i;
    const auto store = evaluator->Traces(plan);
    ASSERT_TRUE(store.ok()) << store.status();
    const auto prediction = Predict(*store, {}, nullptr);
    ASSERT_TRUE(prediction.ok()) << prediction.status();
    EXPECT_EQ(prediction->schedule.makespan, *folded) << "plan " << i;
  }
}

// Many ranks and plans of whole tables, where hardly any rank decides.
TEST(ShardingTraces, RanksThatDecideGiveTheTimeOfAll) {
  SplitMixSequence random(12);
  for (int i = 0; i < 40; ++i) {
    const ShardingTask task = RandomTask(32, random);
    const auto evaluator = TestEvaluator(task, JobSemantics::kFull, "h100-cluster-10");
    for (int j = 0; j < 5; ++j) {
      const ShardingPlan plan = RandomPlan(task, evaluator->ranks_per_node(), false, random);
      EXPECT_EQ(*evaluator->IterationTime(plan), evaluator->Evaluate(plan)->iteration);
    }
  }
}

}  // namespace
}  // namespace foretrace
