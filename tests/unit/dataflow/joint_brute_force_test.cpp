// Shardings and partitions together against trying everything, on random graphs.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <iostream>
#include <limits>
#include <random>

#include "simulator/dataflow/mapping_costs.h"
#include "simulator/dataflow/pass_bounds.h"
#include "simulator/dataflow/pass_search.h"
#include "tests/unit/dataflow/random_workloads.h"

namespace foretrace::dataflow {
namespace {

// A random graph of up to four kernels, some of which train.
Workload SmallTraining(std::mt19937& random) {
  Workload w = RandomWorkload(random, 4, true);
  w.batch = 8;
  w.layers = 4;
  w.layer_input_bytes = RealBytes(1000);
  return w;
}

System SmallCluster(std::mt19937& random, Execution execution) {
  System s = RandomSystem(random);
  s.chip.execution = execution;
  s.memory.capacity = Bytes(1'000'000'000'000'000);
  s.dimensions.push_back(
      {{NetworkKind::kRing, 2, Bandwidth::GBps(4), false, SimTime::FromNs(50)}, {}, Role::kData});
  s.dimensions.push_back(
      {{NetworkKind::kRing, 2, Bandwidth::GBps(20), false}, {}, Role::kPipeline});
  return s;
}

// The least over all shardings, each with its best partitioning.
double LeastOverShardings(const Workload& w, const System& s, const Formulas& formulas) {
  SearchLimits limits;
  limits.tiles = 8;
  TensorGroup group = {{s.dimensions[0].network}};
  group.published = formulas.iteration != IterationRule::kPhysical;
  std::vector<std::vector<Sharding>> choices;
  for (const Kernel& k : w.kernels) choices.push_back(AllowedShardings(k, group, false));
  double least = std::numeric_limits<double>::infinity();
  Shardings now(w.kernels.size());
  const std::function<void(size_t)> choose = [&](size_t i) {
    if (i == now.size()) {
      limits.shardings = now;
      const auto r = Optimise(w, s, formulas, limits);
      if (r.ok()) least = std::min(least, r->time.total.ns());
      return;
    }
    for (const Sharding d : choices[i]) {
      now[i] = d;
      choose(i + 1);
    }
  };
  choose(0);
  return least;
}

struct Searched {
  int rounds = 0, best = 0, proven = 0;
};

// Without trying all shardings: nothing is below the bound, and what is proven is the least.
void ExpectSearched(const Workload& w, const System& s, const Formulas& formulas, double least,
                    Searched& searched) {
  SearchLimits limits;
  limits.tiles = 8;
  limits.every = 0;
  const auto found = Optimise(w, s, formulas, limits);
  if (!found.ok()) return;
  ++searched.rounds;
  EXPECT_GE(found->time.total.ns(), least * (1 - 1e-9));
  EXPECT_LE(found->bound.ns(), least * (1 + 1e-9));
  searched.best += found->time.total.ns() <= least * (1 + 1e-6) ? 1 : 0;
  searched.proven += found->gap() < 1e-9 ? 1 : 0;
}

// Where kernels run alone, one thing after another, the joint optimum; elsewhere what is found is
// within the gap that it states, and nothing is below its bound.
TEST(BruteForce, ShardingsTogetherWithPartitions) {
  std::mt19937 random(23);
  int best = 0, others = 0, few = 0;
  Searched searched;
  for (int round = 0; round < 90; ++round) {
    const Workload w = SmallTraining(random);
    const Execution execution = round % 3 == 0 ? Execution::kDataflow : Execution::kKernelByKernel;
    const System s = SmallCluster(random, execution);
    Formulas formulas;
    formulas.compute_utilisation = round % 2 == 0 ? 0.9 : 0;
    formulas.overlap = round % 9 >= 6 ? Overlap::kMaximum : Overlap::kByMachine;
    if (round % 5 == 4) formulas.iteration = IterationRule::kDse;
    const double least = LeastOverShardings(w, s, formulas);
    SearchLimits limits;
    limits.tiles = 8;
    const auto found = Optimise(w, s, formulas, limits);
    ASSERT_EQ(found.ok(), std::isfinite(least)) << found.status();
    if (!found.ok()) continue;
    ExpectSearched(w, s, formulas, least, searched);
    const double ns = found->time.total.ns();
    EXPECT_GE(ns, least * (1 - 1e-9)) << round;
    EXPECT_LE(found->bound.ns(), least * (1 + 1e-9)) << round;
    EXPECT_LE(ns, found->bound.ns() * (1 + found->gap()) * (1 + 1e-9)) << round;
    if (execution == Execution::kKernelByKernel && formulas.overlap == Overlap::kByMachine) {
      EXPECT_NEAR(ns, least, 1e-6 * least) << round;
      EXPECT_LT(found->gap(), 1e-9) << round;
    } else {
      ++others;
      best += ns <= least * (1 + 1e-6) ? 1 : 0;
      few += found->gap() < 1e-9 ? 1 : 0;
    }
  }
  std::cout << best << " of " << others << " overlapping or fused ones are the best, " << few
            << " proven; searched: " << searched.best << " of " << searched.rounds << ", "
            << searched.proven << " proven\n";
  EXPECT_GT(few, others / 2);
  EXPECT_GT(searched.best, searched.rounds * 8 / 10);
}

// Shardings and partitions of a pass together against all shardings, each with its best partitions.
TEST(BruteForce, PassesOf120RandomGraphs) {
  std::mt19937 random(41);
  int compared = 0, beyond = 0;
  for (int round = 0; round < 120; ++round) {
    Workload w = RandomWorkload(random, 4);
    System s = RandomSystem(random);
    s.memory.capacity = Bytes(1'000'000'000'000'000);
    const Formulas formulas;
    Mapping mapping;
    mapping.roles = {Role::kTensor};
    mapping.tensor = s.dimensions[0].network.size;
    mapping.tiles = 8;
    const double least = LeastOverShardings(w, s, formulas);
    const TensorGroup group = GroupOf(s, formulas, Role::kTensor);
    const ShardingProblem problem(w, group);
    const ShardingProblem::Mask all = Promising(problem, s, formulas, mapping, RealNs::Infinite());
    const auto solve = [&](double below) {
      return SolvePass(problem, s, formulas, mapping, all, Direction::kForward,
                       {RealNs(below), 1'000'000});
    };
    if (!std::isfinite(least)) continue;
    ++compared;
    const PassFound found = solve(2 * least);
    ASSERT_FALSE(found.chosen.empty()) << round;
    EXPECT_NEAR(found.bound.ns(), least, 1e-9 * least) << round;
    SearchLimits limits;
    limits.tiles = 8;
    limits.shardings = problem.ShardingsOf(found.chosen);
    const auto mapped = Optimise(w, s, formulas, limits);
    ASSERT_TRUE(mapped.ok()) << mapped.status();
    EXPECT_NEAR(mapped->time.total.ns(), least, 1e-9 * least) << round;
    const PassFound none = solve(0.99 * least);
    beyond += none.chosen.empty() && none.bound == RealNs(0.99 * least) ? 1 : 0;
    EXPECT_LE(LeastPassTime(problem, s, formulas, mapping, Direction::kForward).ns(),
              least * (1 + 1e-9));
  }
  EXPECT_GT(compared, 80);
  EXPECT_EQ(beyond, compared);
}

// Where the fastest shardings do not fit into memory: the fastest of those that do, proven.
TEST(BruteForce, ShardingsWithinMemory) {
  std::mt19937 random(31);
  int limited = 0, proven = 0, best = 0, rounds = 0;
  for (int round = 0; round < 120; ++round) {
    const Workload w = SmallTraining(random);
    System s = SmallCluster(random, Execution::kKernelByKernel);
    SearchLimits limits;
    limits.tiles = 8;
    const auto free = Optimise(w, s, {}, limits);
    ASSERT_TRUE(free.ok()) << free.status();
    s.memory.capacity = Bytes(static_cast<int64_t>(free->dram.count() * 0.8));
    const double least = LeastOverShardings(w, s, {});
    const auto found = Optimise(w, s, {}, limits);
    if (std::isfinite(least)) {
      ++limited;
      ASSERT_TRUE(found.ok()) << round << " " << found.status();
      EXPECT_GE(found->time.total.ns(), least * (1 - 1e-9)) << round;
      EXPECT_LE(found->bound.ns(), least * (1 + 1e-9)) << round;
      best += found->time.total.ns() <= least * (1 + 1e-6) ? 1 : 0;
      // Tensors between partitions are in memory too, and no part of the bound: of these small
      // graphs they are most of it.
      if (found->gap() < 1e-9) {
        ++proven;
        EXPECT_NEAR(found->time.total.ns(), least, 1e-6 * least) << round;
      }
    }
    ++rounds;
  }
  std::cout << limited << " of " << rounds << " fit otherwise, " << best << " found, " << proven
            << " proven\n";
  EXPECT_GT(limited, 20);
  EXPECT_GT(best, limited / 2);
  EXPECT_GT(proven, limited / 3);
}

}  // namespace
}  // namespace foretrace::dataflow
