#include "simulator/sharding/stack_placement.h"

#include <gtest/gtest.h>

#include "tests/support/sharding_tasks.h"

namespace foretrace {
namespace {

TEST(StackPlacementTest, DealsByFallingSizeAndBack) {
  ShardingTask task = MakeTask(2, 64);
  // Elements 80, 40, 40, 800, 8: the fourth, the first, then the later of two equal ones first.
  for (const int64_t rows : {10, 5, 5, 100, 1}) {
    task.tables.push_back(MakeTable("t" + std::to_string(task.tables.size()), rows, 8, 1, 64));
  }
  const ShardingPlan plan = DealtBySize(task);
  EXPECT_EQ(plan.sharder, "memory_balanced");
  const int32_t expected[] = {1, 0, 1, 0, 0};  // in order 3, 0, 2, 1, 4: ranks 0, 1, 1, 0, 0
  for (size_t t = 0; t < 5; ++t) EXPECT_EQ(plan.tables[t].ranks, std::vector{expected[t]}) << t;
  EXPECT_TRUE(CheckPlan(task, plan, 2).ok());
}

TEST(StackPlacementTest, SlicesByColumns) {
  ShardingTask task = MakeTask(4, 64);
  task.slice_elements = 400;
  task.tables.push_back(MakeTable("large", 100, 8, 1, 64));  // 800: two slices of 400
  task.tables.push_back(MakeTable("small", 10, 8, 1, 64));
  const ShardingPlan plan = DealtBySize(task);
  EXPECT_EQ(plan.tables[0].kind, PlacementKind::kColumn);
  EXPECT_EQ(plan.tables[0].ranks, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(plan.tables[1].ranks, std::vector<int32_t>{2});
  task.slice_elements = 1;  // no more slices than ranks
  EXPECT_EQ(DealtBySize(task).tables[0].ranks, (std::vector<int32_t>{0, 1, 2, 3}));
}

// Two inputs of one table send two vectors, and their lookups add up.
TEST(StackPlacementTest, InputsOfOneTable) {
  ShardingTask task = MakeTask(2, 64);
  task.tables.push_back(MakeTable("one", 1000, 8, 4, 64));
  ShardingTask shared = task;  // evaluators keep a reference
  shared.tables[0].inputs = {1, 3};
  const auto one = TestEvaluator(task), two = TestEvaluator(shared);
  const ShardingPlan plan{"p", {OnRank(0)}};
  const auto a = one->Evaluate(plan), b = two->Evaluate(plan);
  ASSERT_TRUE(a.ok() && b.ok());
  const auto pooled = static_cast<size_t>(CommStep::kPooled);
  EXPECT_EQ(2 * a->bytes[pooled].count(), b->bytes[pooled].count());
  EXPECT_EQ(a->ranks[0].lookups, b->ranks[0].lookups);
}

// With collectives that a loop starts, an iteration is longer by half a cycle at each place where
// the CPU waits for one.
TEST(StackPlacementTest, CyclesOfCollectives) {
  ShardingTask task = MakeTask(4, 4096);
  task.exchange_indices = false;
  for (int i = 0; i < 4; ++i) {
    task.tables.push_back(MakeTable("t" + std::to_string(i), 100'000, 16, 1, 4096));
  }
  const ShardingPlan plan = DealtBySize(task);
  SimTime times[2];
  for (const bool cycle : {false, true}) {
    LookupStack stack = *LoadLookupStack(std::string(FORETRACE_SOURCE_DIR) +
                                         "/topologies/lookups/distributed-embeddings-0.1.yaml");
    if (!cycle) stack.cycle = SimTime();
    ShardingModels models = TestModels();
    models.stack = std::make_shared<const LookupStack>(stack);
    auto evaluator = SimulatedEvaluator::Create(task, std::move(models));
    ASSERT_TRUE(evaluator.ok());
    times[cycle] = *(*evaluator)->IterationTime(plan);
  }
  // Vectors, their gradients and the loss; what the GPU does meanwhile hides some of it.
  EXPECT_GT((times[1] - times[0]).us(), 500);
  EXPECT_LT((times[1] - times[0]).us(), 4 * 500 + 100);
}

}  // namespace
}  // namespace foretrace
