// The exact solvers against trying everything, on random graphs of up to 10 kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <iostream>
#include <limits>
#include <numeric>
#include <random>

#include "simulator/dataflow/mapping.h"
#include "simulator/dataflow/partition_program.h"
#include "tests/unit/dataflow/random_workloads.h"

namespace foretrace::dataflow {
namespace {

// All assignments of kernels to at most `most` partitions in which no tensor leads back.
double BruteForce(const Workload& w, const PartitionCosts& costs, int most, double dram) {
  const size_t n = w.kernels.size();
  double best = std::numeric_limits<double>::infinity();
  std::vector<KernelSet> needs = costs.predecessors();
  const KernelSet all = (KernelSet{1} << n) - 1;
  // By the set that is done: every set of what is left that needs nothing else.
  const std::function<void(KernelSet, int, double)> extend = [&](KernelSet done, int used,
                                                                 double time) {
    if (time >= best) return;
    if (done == all) {
      best = time;
      return;
    }
    if (used == most) return;
    const KernelSet left = all & ~done;
    for (KernelSet part = left; part != 0; part = (part - 1) & left) {
      bool allowed = true;
      for (size_t i = 0; i < n && allowed; ++i) {
        if (((part >> i) & 1) != 0) allowed = (needs[i] & ~(done | part)) == 0;
      }
      if (!allowed) continue;
      const auto cost = costs.Of(part);
      if (!cost || costs.LiveBytes(done, done | part) > dram) continue;
      extend(done | part, used + 1, time + cost->time.ns());
    }
  };
  extend(0, 0, 0);
  return best;
}

TEST(BruteForce, PartitionsOf200RandomGraphs) {
  std::mt19937 random(17);
  int feasible = 0, limited = 0;
  for (int round = 0; round < 200; ++round) {
    const Workload w = RandomWorkload(random);
    const System system = RandomSystem(random);
    ASSERT_TRUE(Validate(w).ok());
    const TensorGroup group = {
        {system.dimensions[0].network}, AllReduceFormula::kPhysical, AllToAllFormula::kPhysical};
    const ShardedWorkload sharded = Shard(w, SolveShardings(w, group, false), group);
    PartitionRules rules;
    rules.overlap = round % 3 == 0 ? Overlap::kSum : Overlap::kMaximum;
    rules.compute_utilisation = round % 2 == 0 ? 0.9 : 0;
    rules.load_weights = round % 5 == 0;
    rules.tiles = 1 << (round % 5);
    const PartitionCosts costs(w, sharded, system, rules, {});
    PartitionLimits limits;
    limits.partitions = round % 4 == 3 ? 3 : 0;
    limits.dram_bytes = RealBytes(round % 7 == 0 ? 60'000 : 0);
    const int most = limits.partitions > 0 ? limits.partitions : static_cast<int>(w.kernels.size());
    const double expected =
        BruteForce(w, costs, most,
                   limits.dram_bytes > RealBytes() ? limits.dram_bytes.count()
                                                   : std::numeric_limits<double>::infinity());
    const auto found = SolvePartitions(w, costs, limits);
    ASSERT_EQ(found.ok(), std::isfinite(expected)) << "round " << round << " " << found.status();
    if (!found.ok()) continue;
    ++feasible;
    limited += limits.partitions > 0 || limits.dram_bytes > RealBytes() ? 1 : 0;
    EXPECT_NEAR(found->time.ns(), expected, 1e-9 * expected) << "round " << round;
    EXPECT_EQ(found->bound, found->time);
    EXPECT_GE(found->time.ns(), costs.LowerBoundNs() * (1 - 1e-12)) << "round " << round;
  }
  EXPECT_GT(feasible, 120);
  EXPECT_GT(limited, 10);
}

// The integer program from every kernel's own partition, or whatever else fits, against the
// lattice.
TEST(BruteForce, ProgramOf60RandomGraphs) {
  std::mt19937 random(29);
  int solved = 0, improved = 0, bounded = 0;
  for (int round = 0; round < 60; ++round) {
    const Workload w = RandomWorkload(random, 8, round % 3 == 0);
    const System system = RandomSystem(random);
    const TensorGroup group = {{system.dimensions[0].network}};
    const ShardedWorkload sharded = Shard(w, SolveShardings(w, group, false), group);
    PartitionRules rules;
    rules.overlap = round % 4 == 0 ? Overlap::kSum : Overlap::kMaximum;
    rules.load_weights = round % 5 == 0;
    rules.tiles = 1 << (round % 5);
    const PartitionCosts costs(w, sharded, system, rules, {});
    PartitionLimits limits;
    limits.partitions = round % 6 == 5 ? 4 : 0;
    limits.dram_bytes = RealBytes(round % 7 == 0 ? 60'000 : 0);
    const auto exact = SolvePartitions(w, costs, limits);
    if (!exact.ok()) continue;
    Partitioning start = *exact;
    std::vector<int> each(w.kernels.size());
    std::iota(each.begin(), each.end(), 0);
    const auto alone = EvaluatePartitions(w, costs, each);
    const bool fits = alone.ok() && limits.partitions == 0 && limits.dram_bytes == RealBytes();
    if (fits) start = *alone;
    start.bound = RealNs();
    for (const int nodes : {1, 20'000}) {
      const auto found = SolvePartitionProgram(w, costs, limits, start, nodes);
      ASSERT_TRUE(found.ok()) << found.status();
      EXPECT_LE(found->bound.ns(), exact->time.ns() * (1 + 1e-9)) << round;
      EXPECT_GE(found->time.ns(), exact->time.ns() * (1 - 1e-9)) << round;
      if (nodes == 1) continue;
      ++solved;
      EXPECT_NEAR(found->time.ns(), exact->time.ns(), 1e-5 * exact->time.ns()) << round;
      improved += found->time.ns() < start.time.ns() * (1 - 1e-9) ? 1 : 0;
      bounded += found->bound.ns() > exact->time.ns() * (1 - 1e-4) ? 1 : 0;
    }
  }
  EXPECT_GT(solved, 30);
  EXPECT_GT(improved, 10);
  EXPECT_EQ(bounded, solved);
}

// Eight chains of three kernels: 4^8 downsets. What the program finds is no worse than kernels in
// their order, and says how far it may be off; with room for all on the chip it is proven.
TEST(Program, WideGraph) {
  LoopGraph graph;
  const auto add = [&](const std::string& name, bool weighted, std::vector<OpId> inputs) {
    LoopNest nest;
    const std::array<int64_t, kLoops> size = {1, 512, weighted ? 512 : 1, 64};
    for (size_t l = 1; l < kLoops; ++l) nest.axes[l] = {graph.AddAxis("", size[l])};
    if (!weighted) nest.axes[2].clear();
    return graph.Add(name, weighted ? GraphOpKind::kMatmul : GraphOpKind::kElementwise,
                     std::move(nest), inputs, TensorRole::kActivation);
  };
  const OpId source = add("source", false, {});
  std::vector<OpId> ends;
  for (int chain = 0; chain < 8; ++chain) {
    OpId last = source;
    for (int i = 0; i < 3; ++i)
      last = add("c" + std::to_string(chain) + std::to_string(i), i % 2 == 0, {last});
    ends.push_back(last);
  }
  add("sink", false, ends);
  Workload w = MakeWorkload("wide", std::move(graph));
  w.tiled_size = 64;
  ASSERT_TRUE(Validate(w).ok());
  std::mt19937 random(1);
  System system = RandomSystem(random);
  for (const int64_t sram : {100'000'000, 2'500'000}) {
    system.chip.sram = Bytes(sram);
    const ShardedWorkload sharded =
        Shard(w, Shardings(w.kernels.size(), Loop::kCount), TensorGroup{});
    PartitionRules rules;
    rules.tiles = 64;
    const PartitionCosts costs(w, sharded, system, rules, {});
    const auto start = SolvePartitions(w, costs, {});
    ASSERT_TRUE(start.ok()) << start.status();
    const auto found = SolvePartitionProgram(w, costs, {}, *start, 2);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_LE(found->time.ns(), start->time.ns());
    EXPECT_GE(found->bound.ns(), start->bound.ns());
    EXPECT_LE(found->bound.ns(), found->time.ns());
    EXPECT_EQ(found->bound == found->time, sram == 100'000'000);
    std::printf("SRAM of %.1f MB: at most %.1f %% above the best, without tensors between %.1f\n",
                static_cast<double>(sram) * 1e-6, 100 * (found->time.ns() / found->bound.ns() - 1),
                100 * (found->time.ns() / costs.LowerBoundNs() - 1));
  }
}

// Tries all shardings, kernel by kernel; of a partial choice the cost so far bounds the rest.
class EveryShardingOf {
 public:
  EveryShardingOf(const Workload& w, const TensorGroup& group, bool divide)
      : w_(w), group_(group), now_(w.kernels.size()) {
    for (const Kernel& k : w.kernels) choices_.push_back(AllowedShardings(k, group, divide));
  }
  ShardingCost Least() {
    Choose(0, {});
    return best_;
  }
  int64_t tried() const { return tried_; }

 private:
  // What kernel `i`'s choice adds to those before it.
  ShardingCost Added(size_t i) const {
    const ShardingObjective objective = Communication();
    ShardingCost added;
    const auto add = [&](const ShardingCost& c) { added.ps += c.ps, added.bytes += c.bytes; };
    add(objective.kernel(i, ShardKernel(w_.kernels[i], now_[i], group_, w_.word_bytes)));
    std::vector<std::string> converted;  // of a producer's tensors, by consumers before
    for (const Tensor& t : w_.tensors) {
      if (static_cast<size_t>(t.to) != i) continue;
      const auto from = static_cast<size_t>(t.from);
      const RealBytes bytes =
          ShardKernel(w_.kernels[from], now_[from], group_, w_.word_bytes).output_bytes;
      ShardedTensor s = ShardTensor(w_, t, now_[from], now_[i], bytes, group_);
      const std::string read = LayoutOf(w_, t, now_[from], now_[i]).read;
      for (const Tensor& other : w_.tensors) {
        const auto to = static_cast<size_t>(other.to);
        if (other.from != t.from || to >= i || w_.kernels[to].pass != w_.kernels[i].pass) continue;
        if (LayoutOf(w_, other, now_[from], now_[to]).read == read) s.convert_time = RealNs();
      }
      add(objective.tensor(s));
    }
    return added;
  }
  void Choose(size_t i, ShardingCost sum) {
    if (sum.ps > best_.ps) return;  // costs are never negative
    if (i == now_.size()) {
      ++tried_;
      best_ = std::min(best_, sum);
      return;
    }
    for (const Sharding d : choices_[i]) {
      now_[i] = d;
      const ShardingCost added = Added(i);
      Choose(i + 1, {sum.ps + added.ps, sum.bytes + added.bytes});
    }
  }

  const Workload& w_;
  const TensorGroup& group_;
  std::vector<std::vector<Sharding>> choices_;
  Shardings now_;
  ShardingCost best_{std::numeric_limits<int64_t>::max(), 0};
  int64_t tried_ = 0;
};

TEST(BruteForce, ShardingsOf200RandomGraphs) {
  std::mt19937 random(4);
  int large = 0;
  for (int round = 0; round < 200; ++round) {
    const Workload w = RandomWorkload(random, 10, round % 3 == 0);
    large += w.kernels.size() == 10 ? 1 : 0;
    const System system = RandomSystem(random);
    const TensorGroup group = {
        {system.dimensions[0].network}, AllReduceFormula::kPhysical, AllToAllFormula::kPhysical};
    const bool divide = round % 2 == 0;
    const ShardingCost best = EveryShardingOf(w, group, divide).Least();
    const Shardings solved = SolveShardings(w, group, divide);
    const ShardingCost found = CostOf(w, solved, group);
    EXPECT_EQ(found.ps, best.ps) << "round " << round;
    EXPECT_NEAR(found.bytes, best.bytes, 1e-9 * best.bytes) << "round " << round;
  }
  EXPECT_GT(large, 10);
}

// Bottleneck allocation against all allocations of three kernels.
TEST(BruteForce, TilesOfKernels) {
  std::mt19937 random(9);
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int round = 0; round < 200; ++round) {
    const Chip chip = {"chip", pick(3, 24), 8, 4, 1, Bytes(1), Execution::kDataflow, 0, 0, 0};
    std::vector<std::vector<TileAllocation>> fronts, every;
    for (int kernel = 0; kernel < 3; ++kernel) {
      const bool gemm = pick(0, 1) == 0;
      const int64_t m = pick(1, 120), k = pick(1, 50), n = pick(1, 60);
      fronts.push_back(AllocationsOf(chip, gemm, m, k, n));
      std::vector<TileAllocation> all;
      for (int64_t lanes = 1; lanes <= chip.tiles; ++lanes) {
        for (int64_t stages = 1; stages <= (gemm ? chip.tiles / lanes : 1); ++stages) {
          const int64_t rows = (m + lanes * 8 - 1) / (lanes * 8);
          all.push_back(
              {lanes, stages, rows * (gemm ? (n + stages * 4 - 1) / (stages * 4) * k : n)});
        }
      }
      every.push_back(all);
    }
    int64_t best = std::numeric_limits<int64_t>::max();
    for (const TileAllocation& a : every[0]) {
      for (const TileAllocation& b : every[1]) {
        for (const TileAllocation& c : every[2]) {
          if (a.tiles() + b.tiles() + c.tiles() > chip.tiles) continue;
          best = std::min(best, std::max({a.cycles, b.cycles, c.cycles}));
        }
      }
    }
    const std::vector<const std::vector<TileAllocation>*> kernels = {&fronts[0], &fronts[1],
                                                                     &fronts[2]};
    const auto found = Allocate(chip, kernels);
    ASSERT_TRUE(found.has_value());
    int64_t most = 0, tiles = 0;
    for (const TileAllocation& a : *found) most = std::max(most, a.cycles), tiles += a.tiles();
    EXPECT_EQ(most, best) << "round " << round;
    EXPECT_LE(tiles, chip.tiles);
  }
}

}  // namespace
}  // namespace foretrace::dataflow
