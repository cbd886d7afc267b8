#include "simulator/sharding/generate.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/base/gib.h"
#include "simulator/base/input.h"
#include "simulator/base/split_mix.h"
#include "simulator/base/status_macros.h"

namespace foretrace {
namespace {

constexpr double kLeastPooling = 0.1;
constexpr double kTablesPerGpu = 13;
constexpr double kMemoryShare = 0.8;
constexpr double kMostRows = 2e7;  // "up to tens of millions of rows" (section II-B)

double LogUniform(double low, double high, SplitMixSequence& random) {
  return low * std::pow(high / low, random.Uniform());
}

double LogUniformMean(double low, double high) { return (high - low) / std::log(high / low); }

// The largest pooling factor with which heavy tables, log-uniform from 20 on, bring the mean over
// all tables to the dataset's.
double MostPooling(const TableStatistics& part) {
  const double mean =
      part.lookups / static_cast<double>(part.tables) / static_cast<double>(part.batch);
  const double light = LogUniformMean(kLeastPooling, kHeavyPooling);
  const double heavy = (mean - (1 - part.heavy_share) * light) / part.heavy_share;
  double low = kHeavyPooling * 1.001, high = 1e5;
  for (int i = 0; i < 60; ++i) {
    const double middle = 0.5 * (low + high);
    (LogUniformMean(kHeavyPooling, middle) < heavy ? low : high) = middle;
  }
  return high;
}

// The tables of the fullest GPU of size_lookup_greedy's plan; none where every GPU stays below the
// share of its memory.
std::vector<size_t> Overfull(const ShardingTask& task) {
  std::vector<size_t> order(task.tables.size());
  std::iota(order.begin(), order.end(), 0);
  std::vector<double> cost;
  for (const EmbeddingTable& x : task.tables) {
    cost.push_back(x.pooling * static_cast<double>(x.dim) *
                   std::log10(static_cast<double>(x.rows)));
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return cost[a] > cost[b]; });
  struct Gpu {
    double load = 0, bytes = 0;
    std::vector<size_t> tables;
  };
  std::vector<Gpu> gpus(static_cast<size_t>(task.gpus));
  // The least loaded one first, of equals the first.
  using Loaded = std::pair<double, size_t>;
  std::priority_queue<Loaded, std::vector<Loaded>, std::greater<>> by_load;
  for (size_t g = 0; g < gpus.size(); ++g) by_load.emplace(0, g);
  for (const size_t t : order) {
    Gpu& least = gpus[by_load.top().second];
    by_load.pop();
    least.load += cost[t];
    least.bytes += static_cast<double>(task.tables[t].weight_bytes().count());
    least.tables.push_back(t);
    by_load.emplace(least.load, static_cast<size_t>(&least - gpus.data()));
  }
  const Gpu& fullest = *std::ranges::max_element(gpus, {}, &Gpu::bytes);
  if (fullest.bytes < kMemoryShare * static_cast<double>(task.memory.count())) return {};
  return fullest.tables;
}

ShardingTask EmptyTask(const GeneratedTasks& options, const std::string& name, int64_t dim) {
  ShardingTask task;
  task.file = task.name = name;
  task.batch = options.batch;
  task.gpus = options.gpus;
  task.memory = options.memory;
  task.platform = options.platform;
  task.calibration = options.calibration;
  // The DLRM reference code: every rank reads the indices of its own tables.
  task.exchange_indices = false;
  task.dense.bottom = {13, 512, 512, dim};
  task.dense.top = {1024, 1024, 1024, 1};
  task.dense.bucket = Bytes(int64_t{25} << 20);
  task.optimizer = OptimizerKind::kSgd;
  task.rowwise = false;
  task.cpu = DlrmOverheads();
  task.allowed.assign(task.allowed.size(), false);
  task.allowed[static_cast<size_t>(PlacementKind::kTable)] = true;
  return task;
}

}  // namespace

// foretrace calibrate trace-overheads dlrm_kineto.tar.gz (facebookresearch/param,
// et_replay/tests/inputs, commit 1e115ff), over all ops.
CpuOverheads DlrmOverheads() {
  return {SimTime::FromUs(9.52), SimTime::FromUs(16.22),
          SimTime::FromUs(6.45), SimTime::FromUs(5.74),
          SimTime::FromUs(8.72), "means of the public 8-rank DLRM trace of facebookresearch/param"};
}

EmbeddingTable DrawTable(const TableStatistics& part, bool heavy, int64_t dim, int64_t batch,
                         SplitMixSequence& random) {
  EmbeddingTable table;
  table.dim = dim;
  table.pooling = heavy ? LogUniform(kHeavyPooling, MostPooling(part), random)
                        : LogUniform(kLeastPooling, kHeavyPooling, random);
  table.pooling = std::round(table.pooling * 1000) / 1000;
  // Of the dataset's whole batch; a task's batch is a sample of it.
  TableAccess whole;
  whole.reuse = part.reuse;
  whole.lookups = std::llround(table.pooling * static_cast<double>(part.batch));
  whole.unique_rows = std::max<int64_t>(
      1, std::llround(static_cast<double>(whole.lookups) * part.unique_rows / part.lookups));
  const auto accessed = static_cast<double>(whole.unique_rows);
  // A batch touches from all rows down to a thirtieth; how many is not published.
  table.rows = std::llround(
      std::clamp(accessed * LogUniform(1, 30, random), accessed, std::max(accessed, kMostRows)));
  table.access = ThinAccess(whole, static_cast<double>(batch) / static_cast<double>(part.batch));
  return table;
}

namespace {

// Draws the tables of `task`. `light` ones only where not all are heavy.
absl::Status DrawTables(const TableStatistics& part, bool all_heavy, int64_t dim,
                        const GeneratedTasks& options, SplitMixSequence& random,
                        ShardingTask& task) {
  constexpr int kWholeDraws = 200;
  constexpr int kPartialDraws = 2000;
  constexpr int64_t kMostPlaced = 3'000'000;  // tables, in all of these: seconds
  const auto draw = [&](int64_t t) {
    const bool heavy = all_heavy || random.Uniform() < part.heavy_share;
    EmbeddingTable table = DrawTable(part, heavy, dim, options.batch, random);
    table.name = fmt::format("{}_{}", part.label, t);
    return table;
  };
  std::vector<size_t> overfull;
  for (int i = 0; i < kWholeDraws; ++i) {
    task.tables.clear();
    const double count = (0.7 + 0.6 * random.Uniform()) * options.gpus * kTablesPerGpu;
    for (int64_t t = 0; t < std::max<int64_t>(1, std::llround(count)); ++t) {
      task.tables.push_back(draw(t));
    }
    overfull = Overfull(task);
    if (overfull.empty()) return absl::OkStatus();
    // Hopeless soon where there are many GPUs.
    if (i * options.gpus >= 4 * kWholeDraws) break;
  }
  int64_t placed = 0;
  for (int i = 0; i < kPartialDraws && placed < kMostPlaced && !overfull.empty(); ++i) {
    placed += static_cast<int64_t>(task.tables.size());
    for (const size_t t : overfull) task.tables[t] = draw(static_cast<int64_t>(t));
    overfull = Overfull(task);
  }
  if (overfull.empty()) return absl::OkStatus();
  return Infeasible(
      "{} tables on {} GPUs of {:.0f} GiB: no draw leaves a fifth of every GPU's memory free; take "
      "a platform of devices with more memory",
      task.tables.size(), options.gpus, Gib(options.memory));
}

}  // namespace

absl::StatusOr<std::vector<ShardingTask>> GenerateTasks(const std::vector<TableStatistics>& parts,
                                                        const GeneratedTasks& options) {
  SplitMixSequence random(options.seed);
  std::vector<ShardingTask> tasks;
  for (const TableStatistics& part : parts) {
    for (int32_t i = 0; i < options.per_part; ++i) {
      const bool all_heavy = i < (options.per_part + 1) / 2;
      constexpr std::array<int64_t, 3> kDims = {32, 64, 128};
      const int64_t dim = kDims[static_cast<size_t>(random.Below(3))];
      ShardingTask task = EmptyTask(options, fmt::format("task_{}", tasks.size()), dim);
      FORETRACE_RETURN_IF_ERROR(DrawTables(part, all_heavy, dim, options, random, task));
      tasks.push_back(std::move(task));
    }
  }
  return tasks;
}

}  // namespace foretrace
