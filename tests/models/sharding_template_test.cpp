// Captured jobs as templates of sharding plans.

#include <gtest/gtest.h>

#include <filesystem>

#include "simulator/engine/replay.h"
#include "simulator/importers/import.h"
#include "simulator/sharding/ranking.h"
#include "tests/support/real_data.h"
#include "tests/support/sharding_tasks.h"

namespace foretrace {
namespace {

std::shared_ptr<const TraceStore> Load(const std::vector<std::string>& paths) {
  ImportOptions options;
  options.jobs = 1;
  auto store = ImportTraces(paths, options);
  FORETRACE_CHECK(store.ok());
  return std::make_shared<const TraceStore>(*std::move(store));
}

std::shared_ptr<const TraceStore> Sample() {
  return Load({std::string(FORETRACE_SOURCE_DIR) + "/traces/samples/dlrm_8rank"});
}

// Of the iteration that the template is about, as predict has it.
SimTime PredictedTime(const TraceStore& store, int64_t iteration) {
  const auto prediction = Predict(store, {}, nullptr);
  FORETRACE_CHECK(prediction.ok());
  SimTime longest;
  for (const PredictedRank& rank : prediction->ranks) {
    for (const PredictedIteration& it : rank.iterations) {
      if (it.number == iteration)
        longest = std::max(longest, it.predicted_end - it.predicted_start);
    }
  }
  return longest;
}

// 26 tables on 8 GPUs, whole or by columns.
ShardingTask TemplateTask(int64_t batch) {
  ShardingTask task = MakeTask(8, batch);
  for (int t = 0; t < 26; ++t) {
    task.tables.push_back(
        MakeTable(fmt::format("t{}", t), 1000 << (t % 12), 16, 1 + 3 * (t % 5), batch));
  }
  for (const PlacementKind kind :
       {PlacementKind::kRow, PlacementKind::kTableRow, PlacementKind::kDataParallel}) {
    task.allowed[static_cast<size_t>(kind)] = false;
  }
  return task;
}

void ExpectRecordedTimeToTheBit(std::shared_ptr<const TraceStore> store) {
  const auto job = TemplateJob::Create(store, 8);
  ASSERT_TRUE(job.ok()) << job.status();
  const SimTime predicted = PredictedTime(*store, (*job)->iteration());
  EXPECT_GT(predicted, SimTime());
  auto schedule = (*job)->Run();
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_EQ((*job)->IterationTime(*schedule), predicted);

  // A plan changes durations and nothing else; the recorded ones bring the recorded time back.
  // A batch so large that lookups outlast what the CPU does meanwhile.
  const ShardingTask task = TemplateTask(1 << 20);
  LookupCosts lookups(task, *FindGpuPeaks("v100-sxm2"), EmbeddingModels());
  const auto collectives = CollectiveTimes::Create(TestModels("dgx-a100").platform, nullptr, 8);
  ASSERT_TRUE(collectives.ok()) << collectives.status();
  ShardingPlan plan;
  for (size_t t = 0; t < task.tables.size(); ++t) plan.tables.push_back(OnRank(t % 8));
  const uint64_t items = (*job)->program().item_count();
  (*job)->SetWork(WorkOf(task, plan, lookups, **collectives), EstimateSource::kAnalytic);
  EXPECT_EQ((*job)->program().item_count(), items);
  schedule = (*job)->Run();
  ASSERT_TRUE(schedule.ok());
  EXPECT_GT((*job)->IterationTime(*schedule), predicted);  // though no call waits for it in DLRM-8
  (*job)->SetRecorded();
  schedule = (*job)->Run();
  ASSERT_TRUE(schedule.ok());
  EXPECT_EQ((*job)->IterationTime(*schedule), predicted);
}

TEST(ShardingTemplate, SampleKeepsItsTimeToTheBit) { ExpectRecordedTimeToTheBit(Sample()); }

TEST(ShardingTemplate, Dlrm8KeepsItsTimeToTheBit) {
  const std::string kineto = RealData("param-et_replay/dlrm_kineto.tar.gz");
  if (!std::filesystem::exists(kineto)) GTEST_SKIP() << kineto << " is not there";
  ExpectRecordedTimeToTheBit(Load({kineto, RealData("param-et_replay/dlrm_pytorch_et.tar.gz")}));
}

TEST(ShardingTemplate, LongerLookupsOnOneRankMakeTheSampleSlower) {
  const ShardingTask task = TemplateTask(8192);
  ShardingModels models = TestModels("dgx-a100");
  models.capture = Sample();
  auto evaluator = SimulatedEvaluator::Create(task, std::move(models));
  ASSERT_TRUE(evaluator.ok()) << evaluator.status();
  ShardingPlan even, uneven;
  for (size_t t = 0; t < task.tables.size(); ++t) {
    even.tables.push_back(OnRank(static_cast<int32_t>(t % 8)));
    uneven.tables.push_back(OnRank(3));
  }
  const auto a = (*evaluator)->Evaluate(even), b = (*evaluator)->Evaluate(uneven);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_LT(a->iteration, b->iteration);
  EXPECT_GT(b->lookup_imbalance, 4);
  EXPECT_GT(b->ranks[0].waiting, b->ranks[3].waiting);
  for (const RankLoad& load : b->ranks) {
    EXPECT_GE(load.idle, SimTime());
    EXPECT_LE(load.computing + load.exposed_transfer + load.waiting + load.idle, b->iteration);
  }
  // Most of the time is the recording's, the lookups are models'.
  EXPECT_GT(b->by_source[static_cast<size_t>(EstimateSource::kRecorded)], SimTime());
  EXPECT_GT(b->by_source[static_cast<size_t>(EstimateSource::kAnalytic)], SimTime());
}

TEST(ShardingTemplate, WhatHasNoPlaceInItIsRefused) {
  ShardingTask task = TemplateTask(1024);
  task.allowed[static_cast<size_t>(PlacementKind::kRow)] = true;
  ShardingModels models = TestModels("dgx-a100");
  models.capture = Sample();
  const auto status = SimulatedEvaluator::Create(task, std::move(models)).status();
  EXPECT_NE(std::string(status.message()).find("row_wise has collectives of its own"),
            std::string::npos);
  EXPECT_NE(std::string(TemplateJob::Create(Sample(), 4).status().message()).find("8 ranks"),
            std::string::npos);
}

}  // namespace
}  // namespace foretrace
