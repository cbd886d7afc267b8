// Simulated plans a second, and whole searches.

#include <benchmark/benchmark.h>

#include <cmath>

#include "simulator/base/split_mix.h"
#include "simulator/sharding/ranking.h"
#include "tests/support/sharding_tasks.h"

namespace foretrace {
namespace {

ShardingTask BenchTask(int64_t tables, int32_t gpus) {
  SplitMixSequence random(1);
  ShardingTask task = MakeTask(gpus, int64_t{512} * gpus);
  for (int64_t t = 0; t < tables; ++t) {
    const auto rows = static_cast<int64_t>(std::pow(10, 3 + 4 * random.Uniform()));
    task.tables.push_back(MakeTable(fmt::format("t{}", t), rows, 64,
                                    std::pow(10, -1 + 3 * random.Uniform()), task.batch,
                                    0.6 + 0.6 * random.Uniform()));
  }
  return task;
}

const char* PlatformFor(int32_t gpus) {
  return gpus <= 4 ? "paper-4xa100" : gpus <= 8 ? "dgx-a100" : "h100-rail-1024";
}

// Random table-wise plans, each with lookups that were not asked for before.
void BM_NewPlans(benchmark::State& state) {
  const auto gpus = static_cast<int32_t>(state.range(1));
  const ShardingTask task = BenchTask(state.range(0), gpus);
  const auto evaluator = TestEvaluator(task, JobSemantics::kFull, PlatformFor(gpus));
  SplitMixSequence random(2);
  for (auto _ : state) {
    ShardingPlan plan;
    for (size_t t = 0; t < task.tables.size(); ++t) {
      plan.tables.push_back(OnRank(static_cast<int32_t>(random.Below(gpus))));
    }
    benchmark::DoNotOptimize(evaluator->IterationTime(plan));
  }
  state.counters["plans/s"] =
      benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}
BENCHMARK(BM_NewPlans)->Args({26, 4})->Args({100, 8})->Args({500, 128});

// All sharders and their evaluation, as `foretrace shard` runs them.
void BM_Rank(benchmark::State& state) {
  const auto gpus = static_cast<int32_t>(state.range(1));
  const ShardingTask task = BenchTask(state.range(0), gpus);
  for (auto _ : state) {
    const auto evaluator = TestEvaluator(task, JobSemantics::kFull, PlatformFor(gpus));
    benchmark::DoNotOptimize(
        RankPlans(task, *evaluator, AllSharders(), {}, 1, DefaultBudget(task)));
  }
}
BENCHMARK(BM_Rank)->Args({26, 4})->Args({100, 8})->Args({500, 128})->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace foretrace
