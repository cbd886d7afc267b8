#include <gtest/gtest.h>

#include <mutex>

#include "simulator/base/split_mix.h"
#include "simulator/engine/executor.h"
#include "simulator/sharding/ranking.h"
#include "tests/support/sharding_tasks.h"

namespace foretrace {
namespace {

ShardingTask ThreeTables(int32_t gpus = 4) {
  ShardingTask task = MakeTask(gpus, 1024);
  task.tables = {MakeTable("a", 1'000'000, 64, 50, 1024), MakeTable("b", 10'000, 32, 5, 1024),
                 MakeTable("c", 300'000, 128, 20, 1024)};
  return task;
}

TEST(Evaluator, PartsOfEveryRankAddUp) {
  const ShardingTask task = ThreeTables();
  const auto evaluator = TestEvaluator(task);
  const ShardingPlan plan{"", {OnRank(0), OnRank(1), {PlacementKind::kColumn, {2, 3}, false}}};
  const auto e = evaluator->Evaluate(plan);
  ASSERT_TRUE(e.ok()) << e.status();
  for (const RankLoad& load : e->ranks) {
    EXPECT_EQ(load.computing + load.exposed_transfer + load.waiting + load.idle, e->iteration);
    EXPECT_GE(load.idle, SimTime());
  }
  EXPECT_EQ(e->iteration, *evaluator->IterationTime(plan));
}

TEST(Evaluator, RanksWithLessToDoWait) {
  const ShardingTask task = ThreeTables();
  const auto evaluator = TestEvaluator(task);
  const auto e = evaluator->Evaluate({"", {OnRank(2), OnRank(2), OnRank(2)}});
  ASSERT_TRUE(e.ok());
  EXPECT_GT(e->ranks[0].waiting, e->ranks[2].waiting);
  EXPECT_DOUBLE_EQ(e->lookup_imbalance, 4);  // one of four ranks does it all
  EXPECT_EQ(e->ranks[0].lookups, 0);
}

// The two executors of the engine agree on every shape of plan.
TEST(Evaluator, ExecutorsAgree) {
  const ShardingTask task = ThreeTables();
  for (const JobSemantics semantics : {JobSemantics::kFull, JobSemantics::kAlgorithm1}) {
    const auto evaluator = TestEvaluator(task, semantics);
    for (int shape = 0; shape < 27; ++shape) {
      ShardingPlan plan;
      for (int t = 0, code = shape; t < 3; ++t, code /= 3) {
        const TablePlacement options[] = {OnRank(t), OnAllRanks(PlacementKind::kRow, 4),
                                          OnAllRanks(PlacementKind::kDataParallel, 4)};
        plan.tables.push_back(options[code % 3]);
      }
      const auto job = evaluator->Prepare(plan);
      ASSERT_TRUE(job.ok()) << job.status();
      const auto straight = RunStraight((*job)->store(), (*job)->program(), nullptr);
      const auto dataflow = RunDataflow((*job)->store(), (*job)->program(), nullptr);
      ASSERT_TRUE(straight.ok() && dataflow.ok());
      EXPECT_EQ(straight->makespan, dataflow->makespan) << shape;
    }
  }
}

// A program that has served other plans gives the bits of one built for the plan alone.
TEST(Evaluator, SettingDurationsEqualsBuildingAnew) {
  const ShardingTask task = ThreeTables();
  const auto used = TestEvaluator(task);
  SplitMixSequence random(3);
  for (int i = 0; i < 100; ++i) {
    ShardingPlan plan;
    for (int t = 0; t < 3; ++t) {
      const auto first = static_cast<int32_t>(random.Below(4));
      switch (random.Below(5)) {
        case 0:
          plan.tables.push_back(OnAllRanks(PlacementKind::kRow, 4));
          break;
        case 1:
          plan.tables.push_back(OnAllRanks(PlacementKind::kDataParallel, 4));
          break;
        case 2:
          plan.tables.push_back(OnNode(0, 4));
          break;
        case 3:
          plan.tables.push_back({PlacementKind::kColumn, {first, (first + 1) % 4}, false});
          break;
        default:
          plan.tables.push_back(OnRank(first));
      }
    }
    ASSERT_TRUE(CheckPlan(task, plan, 4).ok());
    EXPECT_EQ(*used->IterationTime(plan), *TestEvaluator(task)->IterationTime(plan));
  }
}

// Algorithm 1 only adds waits where no call blocks the CPU.
TEST(Evaluator, Algorithm1IsNeverFaster) {
  ShardingTask task = ThreeTables();
  task.exchange_indices = false;
  const auto full = TestEvaluator(task);
  const auto paper = TestEvaluator(task, JobSemantics::kAlgorithm1);
  for (int32_t r = 0; r < 4; ++r) {
    const ShardingPlan plan{"", {OnRank(r), OnRank(0), OnRank(1)}};
    EXPECT_GE(*paper->IterationTime(plan), *full->IterationTime(plan));
  }
}

TEST(Evaluator, CachedTablesCostTransfersFromTheHost) {
  ShardingTask task = ThreeTables(1);
  task.cpu = {};  // so that the device's work alone makes the iteration
  // Half of the rows come over the host link: unique x 64 x 4 / 2 bytes at 1 GB/s.
  task.uvm = {true, 0.5, Bandwidth::GBps(1), Bytes(int64_t{1} << 40)};
  const auto evaluator = TestEvaluator(task);
  ShardingPlan plan{"", {OnRank(0), OnRank(0), OnRank(0)}};
  const SimTime resident = *evaluator->IterationTime(plan);
  plan.tables[0].uvm = true;
  const SimTime cached = *evaluator->IterationTime(plan);
  const double expected_us =
      static_cast<double>(task.tables[0].access.unique_rows) * 64 * 4 * 0.5 / 1e3;
  EXPECT_NEAR((cached - resident).us(), expected_us, 0.01 * expected_us);
}

// All rows are cached; Adam's two states of each distinct row are not: unique x 64 x 4 x 2 bytes
// come and go over the host link at 1 GB/s, both ways at once.
TEST(Evaluator, StatesOfCachedTablesCrossTheLink) {
  ShardingTask task = ThreeTables(1);
  task.cpu = {};
  task.optimizer = OptimizerKind::kAdam;
  task.uvm = {true, 1, Bandwidth::GBps(1), Bytes(int64_t{1} << 40)};
  ShardingPlan resident{"", {OnRank(0), OnRank(0), OnRank(0)}}, cached = resident;
  cached.tables[0].uvm = true;
  for (const bool rowwise : {true, false}) {
    task.rowwise = rowwise;
    const auto evaluator = TestEvaluator(task);
    const SimTime longer = *evaluator->IterationTime(cached) - *evaluator->IterationTime(resident);
    const double expected_us =
        rowwise ? 0 : static_cast<double>(task.tables[0].access.unique_rows) * 64 * 4 * 2 / 1e3;
    EXPECT_NEAR(longer.us(), expected_us, 0.01 * expected_us + 1e-3);
  }
}

TEST(Evaluator, TableRowWiseAcrossNodes) {
  ShardingTask task = ThreeTables(16);
  const auto evaluator = TestEvaluator(task, JobSemantics::kFull, "h100-cluster-10");
  EXPECT_EQ(evaluator->ranks_per_node(), 8);
  const ShardingPlan plan{"", {OnNode(0, 8), OnNode(1, 8), OnRank(3)}};
  const auto e = evaluator->Evaluate(plan);
  ASSERT_TRUE(e.ok()) << e.status();
  // Within node 0: batch x 64 columns x 4 bytes; node 1 has 32 columns.
  EXPECT_EQ(e->bytes[static_cast<size_t>(CommStep::kTableRowNode)], Bytes(1024 * 64 * 4));
  // Between nodes: a rank holds sums of 1/8 of the samples for its node's columns, and gets those
  // of its 64 samples from both nodes: max(128 x 64, 64 x 96) x 4.
  EXPECT_EQ(e->bytes[static_cast<size_t>(CommStep::kTableRowAcross)], Bytes(128 * 64 * 4));
}

TEST(Ranking, FittingPlansComeFirstAndMissesSayWhatTheyNeed) {
  ShardingTask task = ThreeTables();
  task.memory = Bytes(100'000'000);
  task.allowed.assign(task.allowed.size(), false);
  task.allowed[0] = true;
  const auto evaluator = TestEvaluator(task);
  const auto ranking = RankPlans(task, *evaluator, AllSharders(), {}, 1, 100);
  ASSERT_TRUE(ranking.ok()) << ranking.status();
  const absl::Status status = CheckFits(task, *ranking);
  // Table a: 256 MB.
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_NE(std::string(status.message()).find("has 0.10 GB; the nearest plan is"),
            std::string::npos);
}

// Whoever runs a sharder, its plan and the plan's time are the same.
TEST(Ranking, IsTheSameForAnyNumberOfJobs) {
  const ShardingTask task = ThreeTables();
  std::vector<std::string> told;
  std::mutex mutex;
  const auto rank = [&](int jobs) {
    const auto evaluator = TestEvaluator(task);
    RankControl control;
    control.jobs = jobs;
    control.make_evaluator = [&] { return SimulatedEvaluator::Create(task, TestModels()); };
    control.progress = [&](std::string_view sharder, int64_t done, int64_t budget) {
      const std::lock_guard lock(mutex);
      EXPECT_LE(done, budget);
      told.emplace_back(sharder);
    };
    return RankPlans(task, *evaluator, AllSharders(), {}, 1, 300, control);
  };
  const auto one = rank(1), many = rank(4);
  ASSERT_TRUE(one.ok() && many.ok()) << one.status() << many.status();
  ASSERT_EQ(one->plans.size(), many->plans.size());
  EXPECT_EQ(one->evaluated, many->evaluated);
  for (size_t i = 0; i < one->plans.size(); ++i) {
    EXPECT_EQ(one->plans[i].plan.sharder, many->plans[i].plan.sharder);
    EXPECT_EQ(one->plans[i].plan.tables, many->plans[i].plan.tables);
    EXPECT_EQ(one->plans[i].evaluation.iteration, many->plans[i].evaluation.iteration);
  }
  EXPECT_FALSE(told.empty());  // by the search
}

// A rank with less to do in both passes decides nothing; one with more in either does.
TEST(DecisiveRanks, AreThoseThatNoOtherOutlasts) {
  PlanWork work;
  work.shape.pooled = true;
  const auto us = [](double forward, double backward) {
    PlanWork::Rank rank;
    rank.lookups = {SimTime::FromUs(forward), SimTime::FromUs(backward), false};
    return rank;
  };
  work.ranks = {us(10, 10), us(30, 20), us(20, 40), us(20, 30), us(30, 20)};
  EXPECT_EQ(DecisiveRanks(work), (std::vector<uint32_t>{1, 2}));
  work.shape.table_row = true;  // collectives within nodes
  EXPECT_EQ(DecisiveRanks(work).size(), 5u);
  work.shape.table_row = false;
  work.ranks[0].table_copies.forward = SimTime::FromUs(1);  // copies that differ
  EXPECT_EQ(DecisiveRanks(work).size(), 5u);
}

}  // namespace
}  // namespace foretrace
