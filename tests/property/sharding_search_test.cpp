// The search on simulated time against brute force, and the validity of every sharder's plan, on
// random tasks.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "simulator/base/split_mix.h"
#include "simulator/sharding/ranking.h"
#include "tests/support/sharding_tasks.h"

namespace foretrace {
namespace {

constexpr int kTasks = 100;
constexpr int kGpus = 4;
constexpr int64_t kBatch = 1024;

double LogUniform(double low, double high, SplitMixSequence& random) {
  return low * std::pow(high / low, random.Uniform());
}

// Table-wise with 4 to 8 tables, or also by rows and as copies with 3 to 5.
ShardingTask RandomTask(uint64_t seed, bool mixed) {
  SplitMixSequence random(seed);
  ShardingTask task = MakeTask(kGpus, kBatch);
  task.exchange_indices = random.Below(2) == 0;
  const int64_t tables = mixed ? 3 + random.Below(3) : 4 + random.Below(5);
  for (int64_t t = 0; t < tables; ++t) {
    constexpr int64_t kDims[] = {16, 32, 64, 128};
    task.tables.push_back(MakeTable(fmt::format("t{}", t),
                                    static_cast<int64_t>(LogUniform(1e3, 1e7, random)),
                                    kDims[random.Below(4)], std::round(LogUniform(1, 150, random)),
                                    kBatch, 0.5 + 0.7 * random.Uniform()));
  }
  task.allowed.assign(task.allowed.size(), false);
  task.allowed[static_cast<size_t>(PlacementKind::kTable)] = true;
  if (mixed) {
    task.allowed[static_cast<size_t>(PlacementKind::kRow)] = true;
    task.allowed[static_cast<size_t>(PlacementKind::kDataParallel)] = true;
  }
  return task;
}

// The least iteration time over all plans, ranks being alike: a table goes to a rank in use or to
// the first that is not.
class BruteForce {
 public:
  BruteForce(const ShardingTask& task, SimulatedEvaluator& evaluator)
      : task_(task), evaluator_(evaluator) {}
  SimTime Best() {
    plan_.tables.clear();
    Place(0);
    return best_;
  }

 private:
  void Place(int32_t used) {
    if (plan_.tables.size() == task_.tables.size()) {
      best_ = std::min(best_, *evaluator_.IterationTime(plan_));
      return;
    }
    const auto with = [&](TablePlacement p, int32_t ranks) {
      plan_.tables.push_back(std::move(p));
      Place(ranks);
      plan_.tables.pop_back();
    };
    for (int32_t r = 0; r < std::min(used + 1, kGpus); ++r) with(OnRank(r), std::max(used, r + 1));
    for (const PlacementKind kind : {PlacementKind::kRow, PlacementKind::kDataParallel}) {
      if (task_.allows(kind)) with(OnAllRanks(kind, kGpus), used);
    }
  }
  const ShardingTask& task_;
  SimulatedEvaluator& evaluator_;
  ShardingPlan plan_;
  SimTime best_ = SimTime::Max();
};

TEST(ShardingSearch, FindsTheOptimumOfSmallTasks) {
  int exact = 0;
  double worst = 0;
  for (int i = 0; i < kTasks; ++i) {
    const ShardingTask task = RandomTask(1000 + static_cast<uint64_t>(i), i % 2 == 1);
    const auto evaluator = TestEvaluator(task);
    const std::unique_ptr<Sharder> search = MakeSearchSharder();
    const auto ranking = RankPlans(task, *evaluator, {&search, 1}, {}, 1, 1000);
    ASSERT_TRUE(ranking.ok()) << ranking.status();
    const SimTime found = ranking->plans.front().evaluation.iteration;
    const SimTime best = BruteForce(task, *evaluator).Best();
    ASSERT_GE(found, best);
    exact += found == best ? 1 : 0;
    worst = std::max(worst, found.us() / best.us() - 1);
  }
  RecordProperty("exact", exact);
  EXPECT_GE(exact, 95);
  EXPECT_LE(worst, 0.01);
}

TEST(ShardingSearch, EverySharderPlacesEveryTableOnce) {
  SplitMixSequence random(5);
  for (int i = 0; i < 30; ++i) {
    ShardingTask task = RandomTask(static_cast<uint64_t>(i), true);
    task.allowed.assign(task.allowed.size(), random.Below(2) == 0);
    task.allowed[static_cast<size_t>(PlacementKind::kTable)] = true;
    // From ample to too little.
    task.memory = Bytes(static_cast<int64_t>(LogUniform(1e7, 1e10, random)));
    const auto evaluator = TestEvaluator(task);
    const auto ranking = RankPlans(task, *evaluator, AllSharders(), {}, 1, 50);
    ASSERT_TRUE(ranking.ok()) << ranking.status();
    ASSERT_FALSE(ranking->plans.empty());
    bool some_fits = false;
    for (const RankedPlan& p : ranking->plans) {
      EXPECT_TRUE(CheckPlan(task, p.plan, 4).ok()) << p.plan.sharder;
      int64_t cells = 0, expected = 0;
      for (const auto& shards : ShardsByRank(task, p.plan)) {
        for (const Shard& s : shards) {
          cells += s.rows * s.columns / (s.kind == PlacementKind::kDataParallel ? kGpus : 1);
        }
      }
      for (const EmbeddingTable& t : task.tables) expected += t.rows * t.dim;
      EXPECT_EQ(cells, expected) << p.plan.sharder;
      EXPECT_EQ(p.memory.fits, p.memory.largest <= task.memory);
      some_fits = some_fits || p.memory.fits;
    }
    EXPECT_EQ(CheckFits(task, *ranking).ok(), some_fits);
  }
}

TEST(ShardingSearch, SameSeedSamePlan) {
  const ShardingTask task = RandomTask(77, false);
  std::vector<ShardingPlan> plans;
  for (int i = 0; i < 2; ++i) {
    const auto evaluator = TestEvaluator(task);
    const std::unique_ptr<Sharder> search = MakeSearchSharder();
    plans.push_back(RankPlans(task, *evaluator, {&search, 1}, {}, 9, 300)->plans.front().plan);
  }
  EXPECT_EQ(plans[0].tables, plans[1].tables);
}

}  // namespace
}  // namespace foretrace
