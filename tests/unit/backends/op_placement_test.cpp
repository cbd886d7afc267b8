#include "simulator/backends/op_placement.h"

#include <algorithm>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/random_placements.h"

namespace foretrace {
namespace {

using testing::HasSubstr;

SimTime Ms(double ms) { return SimTime::FromUs(ms * 1000); }

// conv1 -> add -> relu, with conv2 as the other operand of add. Backends: 0 cuDNN, 1 TensorRT, 2
// TVM; measured times of the public log (ms).
OperatorView ExampleDag() {
  return OperatorView("example", {Op("conv1", "conv2d", {kNoProducer, kNoProducer}),
                                  Op("conv2", "conv2d", {kNoProducer, kNoProducer}),
                                  Op("add", "add", {0, 1}), Op("relu", "relu", {2})});
}

std::vector<KernelChoice> Unfused() {
  return {{{0}, 0, Ms(.048477)}, {{0}, 1, Ms(.050868)}, {{0}, 2, Ms(.041695)},
          {{1}, 0, Ms(.018801)}, {{1}, 1, Ms(.021642)}, {{1}, 2, Ms(.014967)},
          {{2}, 1, Ms(.011453)}, {{2}, 2, Ms(.005427)}, {{3}, 1, Ms(.012818)},
          {{3}, 2, Ms(.004477)}};
}

TEST(OpPlacement, WorkedExampleHasTheFusedOptimumOf42Placements) {
  std::vector<KernelChoice> choices = Unfused();
  choices.push_back({{0, 2, 3}, 1, Ms(.042063)});
  choices.push_back({{0, 2, 3}, 2, Ms(.060251)});
  const auto placed = PlaceOps(ExampleDag(), choices, kPublishedLaunch);
  ASSERT_TRUE(placed.ok()) << placed.status();
  // 3 x 3 x 2 x 2 without fusion, 2 x 3 with.
  EXPECT_EQ(placed->placements, 42);
  // .042063 (TensorRT's fusion) + .014967 (TVM's conv2) + two launches of .01
  EXPECT_EQ(placed->cost, Ms(.07703));
  EXPECT_EQ(placed->choices, (std::vector<int32_t>{5, 10}));
}

TEST(OpPlacement, WorkedExampleUnfused) {
  const auto placed = PlaceOps(ExampleDag(), Unfused(), kPublishedLaunch);
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_EQ(placed->placements, 36);
  // .041695 + .014967 + .005427 + .004477 + 4 x .01
  EXPECT_EQ(placed->cost, Ms(.106566));
}

TEST(OpPlacement, UncoveredOperatorsAreNamedWithTheirShare) {
  const std::vector<KernelChoice> choices = {{{0}, 0, Ms(1)}, {{1}, 0, Ms(1)}, {{3}, 0, Ms(1)}};
  const auto placed = PlaceOps(ExampleDag(), choices, kPublishedLaunch);
  EXPECT_THAT(std::string(placed.status().message()),
              HasSubstr("1 of 4 operators (25.0 %) have no kernel of the backends with a known "
                        "time: add (add)"));
}

TEST(OpPlacement, KernelsThatCannotBePutTogetherAreRefused) {
  // conv1+add and add+relu overlap; relu alone and conv1 alone have no kernel.
  const std::vector<KernelChoice> choices = {
      {{0, 2}, 0, Ms(1)}, {{2, 3}, 0, Ms(1)}, {{1}, 0, Ms(1)}};
  const auto placed = PlaceOps(ExampleDag(), choices, kPublishedLaunch);
  EXPECT_EQ(placed.status().code(), absl::StatusCode::kFailedPrecondition);
}

// The costs of all exact covers, by recursion on the first operator without a kernel.
void AllCosts(const std::vector<KernelChoice>& choices, std::vector<bool>& covered, SimTime cost,
              std::vector<SimTime>& all) {
  const auto free = std::ranges::find(covered, false);
  if (free == covered.end()) {
    all.push_back(cost);
    return;
  }
  const auto op = static_cast<int32_t>(free - covered.begin());
  for (const KernelChoice& choice : choices) {
    const bool fits = std::ranges::find(choice.ops, op) != choice.ops.end() &&
                      std::ranges::none_of(
                          choice.ops, [&](int32_t o) { return covered[static_cast<size_t>(o)]; });
    if (!fits) continue;
    for (const int32_t o : choice.ops) covered[static_cast<size_t>(o)] = true;
    AllCosts(choices, covered, cost + choice.time + kPublishedLaunch, all);
    for (const int32_t o : choice.ops) covered[static_cast<size_t>(o)] = false;
  }
}

TEST(OpPlacement, EqualsBruteForceOn300RandomGraphs) {
  std::mt19937_64 random(19);
  int fused = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const OperatorView dag = RandomDag(random, 1 + static_cast<int32_t>(random() % 12));
    // Two backends: 2^12 placements of single operators alone at most.
    const std::vector<KernelChoice> choices = RandomChoices(random, dag, 2);
    std::vector<SimTime> all;
    std::vector<bool> covered(static_cast<size_t>(dag.size()));
    AllCosts(choices, covered, SimTime(), all);
    const auto placed = PlaceOps(dag, choices, kPublishedLaunch);
    ASSERT_TRUE(placed.ok()) << placed.status();
    ASSERT_EQ(placed->cost, *std::ranges::min_element(all)) << trial;
    ASSERT_EQ(placed->placements, static_cast<double>(all.size())) << trial;
    // The choices are a cover of this cost, in an order in which they can run.
    SimTime sum;
    std::set<int32_t> done;
    for (const int32_t choice : placed->choices) {
      const KernelChoice& kernel = choices[static_cast<size_t>(choice)];
      sum += kernel.time + kPublishedLaunch;
      fused += kernel.ops.size() > 1;
      for (const int32_t op : kernel.ops) EXPECT_TRUE(done.insert(op).second);
      for (const int32_t op : kernel.ops) {
        for (const int32_t input : dag.op(op).inputs) {
          EXPECT_TRUE(input == kNoProducer || done.contains(input)) << trial;
        }
      }
    }
    EXPECT_EQ(sum, placed->cost);
    EXPECT_EQ(done.size(), static_cast<size_t>(dag.size()));
  }
  EXPECT_GT(fused, 300);  // the graphs have something to fuse
}

TEST(OpPlacement, RankedPlacementsAreTheCheapestOfAll) {
  std::mt19937_64 random(23);
  for (int trial = 0; trial < 60; ++trial) {
    const OperatorView dag = RandomDag(random, 1 + static_cast<int32_t>(random() % 8));
    const std::vector<KernelChoice> choices = RandomChoices(random, dag, 2);
    std::vector<SimTime> all;
    std::vector<bool> covered(static_cast<size_t>(dag.size()));
    AllCosts(choices, covered, SimTime(), all);
    std::ranges::sort(all);
    const auto ranked = RankPlacements(dag, choices, kPublishedLaunch, 20);
    ASSERT_TRUE(ranked.ok()) << ranked.status();
    ASSERT_EQ(ranked->size(), std::min<size_t>(20, all.size()));
    std::set<std::vector<int32_t>> distinct;
    for (size_t i = 0; i < ranked->size(); ++i) {
      EXPECT_EQ((*ranked)[i].cost, all[i]) << trial;
      distinct.insert((*ranked)[i].choices);
    }
    EXPECT_EQ(distinct.size(), ranked->size());
  }
}

TEST(OpPlacement, MoreBackendsNeverCostMore) {
  std::mt19937_64 random(7);
  for (int trial = 0; trial < 50; ++trial) {
    const OperatorView dag = RandomDag(random, 40);
    const std::vector<KernelChoice> all = RandomChoices(random, dag, 4);
    SimTime before = SimTime::Max();
    for (int32_t backends = 1; backends <= 4; ++backends) {
      std::vector<KernelChoice> some;
      std::ranges::copy_if(all, std::back_inserter(some),
                           [&](const KernelChoice& c) { return c.backend < backends; });
      const auto placed = PlaceOps(dag, some, kPublishedLaunch);
      ASSERT_TRUE(placed.ok()) << placed.status();
      EXPECT_LE(placed->cost, before);
      before = placed->cost;
    }
  }
}

}  // namespace
}  // namespace foretrace
