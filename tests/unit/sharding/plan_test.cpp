#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include "simulator/sharding/dealt_rows.h"
#include "simulator/sharding/memory.h"
#include "simulator/sharding/plan_json.h"
#include "simulator/sharding/plan_work.h"
#include "simulator/sharding/sharder.h"
#include "tests/support/sharding_tasks.h"
#include "tests/support/temp_folder.h"

namespace foretrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<int32_t> RanksOf(const ShardingPlan& plan) {
  std::vector<int32_t> ranks;
  for (const TablePlacement& p : plan.tables) ranks.push_back(p.ranks.front());
  return ranks;
}

ShardingTask FourTables() {
  ShardingTask task = MakeTask(2, 64);
  task.tables = {MakeTable("a", 1000, 64, 10, 64), MakeTable("b", 100, 64, 1, 64),
                 MakeTable("c", 10000, 64, 5, 64), MakeTable("d", 10, 64, 20, 64)};
  return task;
}

absl::StatusOr<ShardingPlan> PlanOf(const ShardingTask& task, MakeSharder make, uint64_t seed = 1) {
  const auto evaluator = TestEvaluator(task);
  ModelledCost costs(task, *evaluator);
  const ShardingProblem problem{
      task, evaluator->dense(), costs, *evaluator, evaluator->ranks_per_node(), seed, 200};
  return make()->Shard(problem);
}

// Table III by hand, tables a to d with (E, L) = (1000, 10), (100, 1), (10000, 5), (10, 20), D
// = 64.
TEST(Sharders, PaperSixByHand) {
  const ShardingTask task = FourTables();
  // idx % 2.
  EXPECT_THAT(RanksOf(*PlanOf(task, MakeNaiveSharder)), ElementsAre(0, 1, 0, 1));
  // E: c to 0 (10000); a to 1; b to 1 (1000 < 10000); d to 1.
  EXPECT_THAT(RanksOf(*PlanOf(task, MakeSizeGreedySharder)), ElementsAre(1, 1, 0, 1));
  // L D / 64: d 20 to 0, a 10 to 1, c 5 to 1 (10 < 20), b 1 to 1 (15 < 20).
  EXPECT_THAT(RanksOf(*PlanOf(task, MakeLookupGreedySharder)), ElementsAre(1, 1, 1, 0));
  // L / E: d 2 to 0; a .01, b .01, c .0005 all to 1.
  EXPECT_THAT(RanksOf(*PlanOf(task, MakeNormLookupGreedySharder)), ElementsAre(1, 1, 1, 0));
  // L log10 E: a 30 to 0; c 20 to 1; d 20 to 1 (20 < 30); b 2 to 0 (30 < 40).
  EXPECT_THAT(RanksOf(*PlanOf(task, MakeSizeLookupGreedySharder)), ElementsAre(0, 0, 1, 1));
}

TEST(Sharders, RandomFollowsItsSeed) {
  const ShardingTask task = FourTables();
  EXPECT_EQ(RanksOf(*PlanOf(task, MakeRandomSharder, 7)),
            RanksOf(*PlanOf(task, MakeRandomSharder, 7)));
  std::vector<std::vector<int32_t>> seen;
  for (uint64_t seed = 0; seed < 8; ++seed)
    seen.push_back(RanksOf(*PlanOf(task, MakeRandomSharder, seed)));
  EXPECT_GT(std::set(seen.begin(), seen.end()).size(), 1u);
}

TEST(Sharders, GreedyPassesOverFullRanks) {
  ShardingTask task = MakeTask(2, 64);
  task.tables = {MakeTable("a", 1000, 64, 10, 64), MakeTable("b", 8'000'000, 64, 9, 64),
                 MakeTable("c", 3'000'000, 64, 1, 64)};
  // By lookups: a to 0, b to 1, and c to 1, which has less to look up (9 < 10).
  EXPECT_THAT(RanksOf(*PlanOf(task, MakeLookupGreedySharder)), ElementsAre(0, 1, 1));
  // b needs 2.05 GB and 32 MB of state, c 0.77 GB and 12 MB: together more than there is.
  task.memory = Bytes(2'700'000'000);
  EXPECT_THAT(RanksOf(*PlanOf(task, MakeLookupGreedySharder)), ElementsAre(0, 1, 0));
}

TEST(Sharders, LptSplitsWhatDoesNotFitWhole) {
  ShardingTask task = MakeTask(4, 64);
  task.tables = {MakeTable("large", 20'000'000, 64, 10, 64), MakeTable("small", 1000, 64, 10, 64)};
  task.memory = Bytes(3'000'000'000);  // large: 5.12 GB of weights
  const auto plan = PlanOf(task, MakeLptSharder);
  ASSERT_TRUE(plan.ok());
  EXPECT_NE(plan->tables[0].kind, PlacementKind::kTable);
  EXPECT_TRUE(MemoryOf(task, TestEvaluator(task)->dense(), *plan).fits);
  EXPECT_TRUE(CheckPlan(task, *plan, 4).ok());
}

// Costs in proportion to lookups 3, 3, 2, 2, 2: longest processing time first gives 7 and 5; the
// optimum is 6 and 6, one swap away.
TEST(Sharders, LptAndIlpFindTheEvenSplit) {
  ShardingTask task = MakeTask(2, 4096);
  for (const double l : {30, 30, 20, 20, 20}) {
    task.tables.push_back(
        MakeTable(fmt::format("t{}", task.tables.size()), 1'000'000, 64, l, 4096));
  }
  task.allowed.assign(task.allowed.size(), false);
  task.allowed[0] = true;
  for (const MakeSharder make : {MakeLptSharder, MakeIlpSharder}) {
    const auto plan = PlanOf(task, make);
    ASSERT_TRUE(plan.ok()) << plan.status();
    double lookups[2] = {0, 0};
    for (size_t t = 0; t < 5; ++t) lookups[plan->tables[t].ranks[0]] += task.tables[t].pooling;
    EXPECT_EQ(std::max(lookups[0], lookups[1]), 60);
  }
}

TEST(Plan, ColumnsAreCutAtMultiplesOfFour) {
  EmbeddingTable table = MakeTable("t", 100, 20, 1, 4);
  const auto shards = ShardsOf(table, 0, {PlacementKind::kColumn, {0, 1, 2}, false});
  // Five units of four: bounds 0, 5/3 = 1, 10/3 = 3, 5.
  EXPECT_EQ(shards[0].columns, 4);
  EXPECT_EQ(shards[1].columns, 8);
  EXPECT_EQ(shards[2].columns, 8);
  EXPECT_EQ(shards[2].first_column, 12);
}

TEST(Plan, RowsAreCutInBlocksRoundedUp) {
  EmbeddingTable table = MakeTable("t", 10, 8, 1, 4);
  const auto shards = ShardsOf(table, 0, OnAllRanks(PlacementKind::kRow, 4));
  // Blocks of 3: 3, 3, 3, 1.
  EXPECT_EQ(shards[0].rows, 3);
  EXPECT_EQ(shards[3].first_row, 9);
  EXPECT_EQ(shards[3].rows, 1);
}

TEST(Plan, ProblemsNameTheTable) {
  ShardingTask task = FourTables();
  ShardingPlan plan{"p", {OnRank(0), OnRank(1), OnRank(0), OnRank(2)}};
  EXPECT_THAT(std::string(CheckPlan(task, plan, 2).message()),
              HasSubstr("'d' is placed table_wise: rank 2"));
  plan.tables[3] = OnRank(1);
  EXPECT_TRUE(CheckPlan(task, plan, 2).ok());
  plan.tables[0] = {PlacementKind::kColumn, {1, 1}, false};
  EXPECT_THAT(std::string(CheckPlan(task, plan, 2).message()), HasSubstr("named twice"));
  plan.tables.pop_back();
  EXPECT_THAT(std::string(CheckPlan(task, plan, 2).message()),
              HasSubstr("places 3 tables, the task has 4"));
  task.allowed[static_cast<size_t>(PlacementKind::kRow)] = false;
  plan.tables = {OnAllRanks(PlacementKind::kRow, 2), OnRank(0), OnRank(0), OnRank(0)};
  EXPECT_THAT(std::string(CheckPlan(task, plan, 2).message()), HasSubstr("does not allow"));
}

TEST(Plan, JsonReadsBack) {
  const ShardingTask task = FourTables();
  ShardingPlan plan{"x",
                    {OnRank(1),
                     {PlacementKind::kColumn, {1, 0}, false},
                     OnAllRanks(PlacementKind::kRow, 2),
                     OnAllRanks(PlacementKind::kDataParallel, 2)}};
  const std::string json = PlanJson(task, plan, 2);
  EXPECT_THAT(json, HasSubstr("\"placement\": \"rank:1/cuda:1\""));
  const auto back = ParsePlanJson(task, json, "plan.json");
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->tables, plan.tables);
  EXPECT_THAT(std::string(ParsePlanJson(task, "{\"plan\": {}}", "p").status().message()),
              HasSubstr("table 'a' of test is not in the plan"));
  EXPECT_FALSE(ParsePlanJson(task, "{", "p").ok());
  EXPECT_FALSE(ParsePlanJson(task, "[]", "p").ok());
}

// Batch 8 on 2 GPUs, E = 1000, D = 4, L = 3, fp32, row-wise Adagrad. Dense part: 100 bytes of
// parameters (with gradient and state 300) and 50 of activations. Buffers 2 x 4 x 4 x 4 = 128.
TEST(Memory, ByHand) {
  ShardingTask task = MakeTask(2, 8);
  task.tables = {MakeTable("t", 1000, 4, 3, 8)};
  DenseWork dense;
  dense.parameters = Bytes(100);
  dense.activations = Bytes(50);
  const int64_t fixed = 350 + 128;
  const auto total = [&](const TablePlacement& p, size_t rank) {
    return MemoryOf(task, dense, {"", {p}}).ranks[rank].total().count() - fixed;
  };
  // Weights 16000, state 4000, vectors 2 x 8 x 4 x 4 = 256, indices (24 + 8) x 8 = 256.
  EXPECT_EQ(total(OnRank(0), 0), 16000 + 4000 + 512);
  EXPECT_EQ(total(OnRank(0), 1), 0);
  // Half the columns, but state and indices of all rows.
  EXPECT_EQ(total({PlacementKind::kColumn, {0, 1}, false}, 1), 8000 + 4000 + 128 + 256);
  // Half the rows and half the indices, whole vectors.
  EXPECT_EQ(total(OnAllRanks(PlacementKind::kRow, 2), 0), 8000 + 2000 + 256 + (12 + 8) * 8);
  // A copy: dense gradient, a state for each value, half the samples.
  EXPECT_EQ(total(OnAllRanks(PlacementKind::kDataParallel, 2), 0),
            16000 + 16000 + 16000 + 128 + (12 + 4) * 8);
}

TEST(Memory, CachedTablesCountInTheHost) {
  ShardingTask task = MakeTask(1, 8);
  task.tables = {MakeTable("t", 1000, 4, 3, 8)};
  task.uvm = {true, 0.25, Bandwidth::GBps(12), Bytes(16000)};
  TablePlacement p = OnRank(0);
  p.uvm = true;
  const MemoryVerdict verdict = MemoryOf(task, {}, {"", {p}});
  EXPECT_EQ(verdict.ranks[0].weights, Bytes(4000));
  EXPECT_EQ(verdict.largest_host, Bytes(16000));
  EXPECT_TRUE(verdict.fits);
  task.uvm.host_memory = Bytes(15999);
  EXPECT_FALSE(MemoryOf(task, {}, {"", {p}}).fits);
}

// Four tables of 16,000 bytes, a quarter of each cached: on the device all four take 16,000, one
// whole beside three cached 28,000. With room for little more than the former all go to the host.
TEST(Sharders, LptPutsAllTablesInTheHostWhereOneLeavesNoRoom) {
  ShardingTask task = MakeTask(1, 1);
  for (const char* name : {"a", "b", "c", "d"}) {
    task.tables.push_back(MakeTable(name, 1000, 4, 1, 1));
  }
  task.uvm = {true, 0.25, Bandwidth::GBps(12), Bytes(1'000'000)};
  task.optimizer = OptimizerKind::kSgd;
  TablePlacement cached = OnRank(0);
  cached.uvm = true;
  const auto evaluator = TestEvaluator(task);
  const DenseWork& dense = evaluator->dense();
  task.memory = MemoryOf(task, dense, {"", {cached, cached, cached, cached}}).largest + Bytes(100);
  const auto plan = PlanOf(task, MakeLptSharder);
  ASSERT_TRUE(plan.ok()) << plan.status();
  for (const TablePlacement& p : plan->tables) EXPECT_TRUE(p.uvm);
  EXPECT_TRUE(MemoryOf(task, dense, *plan).fits);
}

// Adam's two states for each of 4,000 values lie with the table, those of each row on the device.
TEST(Memory, StatesOfCachedTables) {
  ShardingTask task = MakeTask(1, 8);
  task.tables = {MakeTable("t", 1000, 4, 3, 8)};
  task.uvm = {true, 0.25, Bandwidth::GBps(12), Bytes(1'000'000)};
  task.optimizer = OptimizerKind::kAdam;
  TablePlacement p = OnRank(0);
  p.uvm = true;
  task.rowwise = false;
  const RankMemory values = MemoryOf(task, {}, {"", {p}}).ranks[0];
  EXPECT_EQ(values.optimizer, Bytes(0));
  EXPECT_EQ(values.host, Bytes(16000 + 2 * 16000));
  task.rowwise = true;
  const RankMemory rows = MemoryOf(task, {}, {"", {p}}).ranks[0];
  EXPECT_EQ(rows.optimizer, Bytes(2 * 4000));
  EXPECT_EQ(rows.host, Bytes(16000));
}

// 2 GPUs, batch 8: rank 0 has 64 columns, rank 1 has 32. Rank 0 sends 8 x 64 x 4 = 2048 bytes; each
// receives 4 x 96 x 4 = 1536.
TEST(PlanWork, UnequalAllToAll) {
  ShardingTask task = MakeTask(2, 8);
  task.tables = {MakeTable("a", 1000, 64, 3, 8), MakeTable("b", 1000, 32, 5, 8)};
  const auto evaluator = TestEvaluator(task);
  const ShardingPlan plan{"", {OnRank(0), OnRank(1)}};
  const PlanWork work = WorkOf(task, plan, evaluator->lookups(), evaluator->collectives());
  EXPECT_EQ(work.ranks[0].sent, Bytes(2048));
  EXPECT_EQ(work.ranks[1].sent, Bytes(1024));
  EXPECT_EQ(work.ranks[1].received, Bytes(1536));
  EXPECT_EQ(work.bytes[static_cast<size_t>(CommStep::kPooled)], Bytes(2048));
  // Indices: rank 1 gets 8 x 5 of 8 bytes, more than what a rank sends (8 x 8 / 2 x 8).
  EXPECT_EQ(work.bytes[static_cast<size_t>(CommStep::kIndices)], Bytes(320));
  EXPECT_DOUBLE_EQ(work.ranks[1].lookup_count, 40);
}

// 2 GPUs, batch 8, one table of 64 columns by rows, 4 lookups a sample. A rank sends partial sums
// of all samples, 8 x 64 x 4 = 2048 bytes, and gradients of its own, 1024; the lengths of its 4
// samples, 4 x 2 x 4 = 32 bytes, to the shards, and their 4 x 4 indices, 128 bytes.
TEST(PlanWork, RowWiseTablesExchangeIdsSumsAndGradients) {
  ShardingTask task = MakeTask(2, 8);
  task.tables = {MakeTable("a", 1000, 64, 4, 8)};
  const auto evaluator = TestEvaluator(task);
  const ShardingPlan plan{"", {OnAllRanks(PlacementKind::kRow, 2)}};
  const PlanWork work = WorkOf(task, plan, evaluator->lookups(), evaluator->collectives());
  EXPECT_EQ(work.ranks[0].all_sent, Bytes(2048 + 1024 + 32 + 128));
  EXPECT_EQ(work.ranks[0].sent, Bytes(0));
  EXPECT_NEAR(work.ranks[0].lookup_count + work.ranks[1].lookup_count, 32, 1e-9);
}

// One row has 49,152 of 98,304 lookups (the mean of the last bin), 49,152 rows have one each. Of
// four blocks the one that holds it has 49,152 + 12,288 of them, 5/8, the others 1/8 each.
TEST(DealtRows, TheBlockOfTheHottestRowHasMore) {
  TableAccess access;
  access.lookups = 98304;
  access.unique_rows = 49153;
  access.reuse.fractions[kReuseBins - 1] = 1.0 / 49153;
  access.reuse.fractions[1] = 49152.0 / 49153;
  const DealtRows dealt(access, 400000, 7);
  std::vector<double> shares;
  double unique = 0;
  for (int64_t block = 0; block < 4; ++block) {
    const DealtRows::Part part = dealt.Of(block * 100000, 100000);
    shares.push_back(part.lookups);
    unique += part.unique_rows;
  }
  std::sort(shares.begin(), shares.end());
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(shares[i], 0.125, 1e-9);
  EXPECT_NEAR(shares[3], 0.625, 1e-9);
  EXPECT_NEAR(unique, 49153, 1e-6);
}

// Rows that are all alike fall evenly, and so do accesses of which nothing is known.
TEST(DealtRows, WithoutSkewBlocksAreAlike) {
  TableAccess access;
  access.lookups = access.unique_rows = 50000;
  EXPECT_NEAR(DealtRows(access, 100000, 0).Of(0, 25000).lookups, 0.25, 1e-12);
  access.reuse.fractions[1] = 1;
  EXPECT_NEAR(DealtRows(access, 100000, 0).Of(0, 25000).lookups, 0.25, 1e-12);
}

TEST(Access, ThinningKeepsExpectedCounts) {
  // 100 rows accessed once, 100 about 1.5 x 2^4 times. A tenth of the batch sees a tenth of the
  // former, and 1 - 0.9^23.5 = 92 % of the latter (bin 5 holds 16 to 31, 23.5 in the middle).
  TableAccess access;
  access.reuse.fractions[1] = 0.5;
  access.reuse.fractions[5] = 0.5;
  access.unique_rows = 200;
  access.lookups = 100 + 2350;
  const TableAccess thin = ThinAccess(access, 0.1);
  EXPECT_EQ(thin.lookups, 245);
  EXPECT_NEAR(static_cast<double>(thin.unique_rows), 10 + 100 * (1 - std::pow(0.9, 23.5)), 1.5);
}

TEST(Access, ZipfWithoutSkewIsUniform) {
  // 1000 lookups of 1000 rows: 1 - 1/e of them are seen, e^-1 / (1 - e^-1) = 58.2 % of those once.
  const TableAccess access = ZipfAccess(1000, 1000, 0);
  EXPECT_NEAR(static_cast<double>(access.unique_rows), 632, 1);
  EXPECT_NEAR(access.reuse.fractions[1], 0.582, 0.001);
  const TableAccess skewed = ZipfAccess(1000, 1000, 1.2);
  EXPECT_LT(skewed.unique_rows, access.unique_rows / 2);
  EXPECT_NEAR(std::accumulate(skewed.reuse.fractions.begin(), skewed.reuse.fractions.end(), 0.0), 1,
              1e-9);
}

constexpr const char* kTask = R"(
name: t
batch: 64
gpus: 2
memory_GB: 16
platform: paper-4xa100
placements: [table_wise, row_wise]
exchange_indices: false
dense: {features: 13, bottom: [64, 16], top: [32, 1], interaction: dot}
optimizer: {kind: adagrad, rowwise: true}
cpu: {t1_us: 1, t2_us: 2, t3_us: 3, t4_us: 4, t5_us: 5, source: test}
tables:
  - {name: a, rows: 1000, dim: 16, pooling: {0: 0.5, 4: 0.5}, reuse: {zipf: 1}}
)";

TEST(TaskYaml, ReadsAndWritesTheSame) {
  const auto task = ParseShardingTask(kTask, "t.yaml");
  ASSERT_TRUE(task.ok()) << task.status();
  EXPECT_DOUBLE_EQ(task->tables[0].pooling, 2);
  EXPECT_EQ(task->tables[0].access.lookups, 128);
  const auto again = ParseShardingTask(ShardingTaskYaml(*task), "t.yaml");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(ShardingTaskYaml(*again), ShardingTaskYaml(*task));
}

// The same tables as a list says: 2 lookups of 64 samples are 128.
TEST(TaskYaml, TablesMayBeRowsOfACsv) {
  const TempFolder folder;
  std::string text = kTask;
  text.replace(text.find("tables:"), std::string::npos, "tables: my tables.csv\n");
  const std::string file = folder.Write("t.yaml", text);
  const auto read = [&](const std::string& csv) {
    folder.Write("my tables.csv", csv);
    return LoadShardingTask(file);
  };
  const auto task =
      read("Table,num_embeddings,pooling,zipf,dim,owner\n\"a, b\",1000,2,1,16,us\n\n");
  ASSERT_TRUE(task.ok()) << task.status();
  ASSERT_EQ(task->tables.size(), 1u);
  EXPECT_EQ(task->tables[0].name, "a, b");
  EXPECT_EQ(task->tables[0].rows, 1000);
  EXPECT_EQ(task->tables[0].access.lookups, 128);
  const auto error = [&](const std::string& csv) {
    return std::string(read(csv).status().message());
  };
  EXPECT_THAT(error("name,rows,dim,pooling\na,1000,16,2\n"),
              HasSubstr("my tables.csv:1: no column 'zipf'"));
  EXPECT_THAT(error("name,rows,dim,pooling,zipf\na,1000,16,2,1\nb,many,16,2,1\n"),
              HasSubstr("my tables.csv:3: key 'tables[1].rows': must be a number"));
  EXPECT_THAT(error("name,rows,dim,pooling,zipf\na,1000,16,2,1,7\n"),
              HasSubstr("my tables.csv:2: 6 fields, where the first line has 5"));
  EXPECT_THAT(error("name,rows,dim,pooling,zipf\na,1000,16,2,1\na,1000,16,2,1\n"),
              HasSubstr("my tables.csv:3: key 'tables[1].name': 'a' is given twice"));
  EXPECT_THAT(error("name,rows,dim,pooling,zipf\na,1000,16,,1\n"),
              HasSubstr("my tables.csv:2: key 'tables[0].pooling': missing"));
  EXPECT_THAT(error("name,rows,dim,pooling,zipf\n"), HasSubstr("at least one table"));
  const auto laid_out = read("name , rows, dim,pooling , zipf\na, 1000, 16, 2, 1\n");
  ASSERT_TRUE(laid_out.ok()) << laid_out.status();
  EXPECT_EQ(laid_out->tables[0].rows, 1000);
  text.replace(text.find("tables:"), std::string::npos, "tables: \"\"\n");
  EXPECT_THAT(std::string(ParseShardingTask(text, "t.yaml").status().message()),
              HasSubstr("at least one table"));
}

TEST(TaskYaml, FeaturesNeedNoBottomLayers) {
  std::string text = kTask;
  const auto edit = [&](const std::string& from, const std::string& to) {
    text.replace(text.find(from), from.size(), to);
  };
  edit("bottom: [64, 16]", "bottom: []");
  edit("dot}", "concat}");
  const auto task = ParseShardingTask(text, "t.yaml");
  ASSERT_TRUE(task.ok()) << task.status();
  EXPECT_EQ(task->dense.bottom, std::vector<int64_t>{13});
  const auto again = ParseShardingTask(ShardingTaskYaml(*task), "t.yaml");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->dense.bottom, task->dense.bottom);
  edit("top: [32, 1]", "top: []");
  EXPECT_THAT(ParseShardingTask(text, "t.yaml").status().message(),
              HasSubstr("'dense.top': needs at least one width"));
}

TEST(TaskYaml, ErrorsNameLineAndKey) {
  const auto error = [](std::string from, const std::string& to) {
    std::string text = kTask;
    text.replace(text.find(from), from.size(), to);
    return std::string(ParseShardingTask(text, "t.yaml").status().message());
  };
  EXPECT_THAT(error("batch: 64", "batch: 63"),
              HasSubstr("t.yaml:3: key 'batch': 63 samples cannot be shared"));
  EXPECT_THAT(error("row_wise", "diagonal"),
              HasSubstr("t.yaml:7: key 'placements[1]': 'diagonal' is not"));
  EXPECT_THAT(error("dim: 16", "dim: 0"),
              HasSubstr("t.yaml:13: key 'tables[0].dim': 0 is outside"));
  EXPECT_THAT(error("dim: 16", "dim: 8"), HasSubstr("use interaction: concat"));
  EXPECT_THAT(error("zipf: 1", "zipf: x"), HasSubstr("'tables[0].reuse.zipf': must be a number"));
  EXPECT_THAT(error("{0: 0.5, 4: 0.5}", "{few: 1}"), HasSubstr("'few' is not a number of lookups"));
  EXPECT_THAT(error("t5_us: 5, ", ""), HasSubstr("key 'cpu.t5_us': missing"));
}

}  // namespace
}  // namespace foretrace
