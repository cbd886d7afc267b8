#include "simulator/search/phaze.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>

#include "tests/unit/search/partition_fixture.h"

namespace foretrace {
namespace {

// Embedding, eight layers, head; 16 accelerators, 64 microbatches, 4 GiB/s, edges of 1 MiB.
PhazeProblem Chain(double optimizer, double memory, const std::vector<int32_t>& widths,
                   bool recompute) {
  PhazeProblem p;
  p.layers = 10;
  for (int32_t i = 0; i < 9; ++i) p.edges.push_back({i, i + 1, 1048576});
  p.accelerators = 16;
  p.microbatches = 64;
  p.bandwidth = 4.0 * 1073741824;
  p.memory_bytes = memory;
  p.optimizer_factor = optimizer;
  p.recompute = recompute;
  for (const int32_t t : widths) {
    const double extra = t > 1 ? 0.001 : 0;
    std::vector<PhazeLayer> layers(10, {.01 / t + extra, .02 / t + extra, 1e8 / t, 2e8 / t, true});
    layers.front() = layers.back() = {.002, .003, 5e7 / t, 1e7, false};
    p.by_width[t] = layers;
  }
  return p;
}

// What the published program answers. Case A by hand: load of {0, 1, 2} is .005 + 2 * .03 plus one
// transfer of 1 MiB at 4 GiB/s; 16 + 4 - 1 = 19 of them; and 4 * 3/4 * 2.5e8 / (4 GiB/s).
TEST(PhazeTest, PublishedAnswers) {
  const auto a = PlacePhaze(Chain(0, 4e9, {1}, false));
  ASSERT_TRUE(a.ok()) << a.status();
  EXPECT_NEAR(a->batch_s, 1.4142616546154023, 1e-12);
  EXPECT_EQ(a->data_parallel, 4);
  ASSERT_EQ(a->stages.size(), 4u);
  EXPECT_EQ(a->stages[0].layers, (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(a->stages[3].layers, (std::vector<int32_t>{7, 8, 9}));
  const auto b = PlacePhaze(Chain(0, 4e9, {1}, true));
  ASSERT_TRUE(b.ok()) << b.status();
  EXPECT_NEAR(b->batch_s, 1.6824148041009905, 1e-12);
  EXPECT_EQ(b->data_parallel, 8);
  EXPECT_EQ(b->stages.size(), 2u);
  const auto c = PlacePhaze(Chain(1, 1e9, {1, 2, 4}, false));
  ASSERT_TRUE(c.ok()) << c.status();
  EXPECT_NEAR(c->batch_s, 1.4794435354471207, 1e-12);
  EXPECT_EQ(c->data_parallel, 2);
  EXPECT_EQ(c->width, 4);
  const auto d = PlacePhaze(Chain(1, 1e9, {1, 2, 4}, true));
  ASSERT_TRUE(d.ok()) << d.status();
  EXPECT_NEAR(d->batch_s, 1.7813020032644273, 1e-12);
  EXPECT_EQ(d->stages[0].layers, (std::vector<int32_t>{0, 1, 2, 3}));
}

TEST(PhazeTest, FixedPlacements) {
  EXPECT_NEAR(EvaluateFixedPlacement(Chain(0, 4e9, {1}, true), 4, 1, 4)->batch_s,
              1.9144124615192413, 1e-12);
  EXPECT_NEAR(EvaluateFixedPlacement(Chain(1, 1e9, {1, 2, 4}, true), 4, 2, 2)->batch_s,
              2.0034695184230804, 1e-12);
}

TEST(PhazeTest, InfeasibleAndInvalid) {
  EXPECT_EQ(PlacePhaze(Chain(0, 1e6, {1}, false)).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(PlacePhaze({}).status().code(), absl::StatusCode::kInvalidArgument);
}

// Every chain of stages on chain graphs, width 1, stash kept.
double BruteForce(const PhazeProblem& p) {
  const auto& layers = p.by_width.at(1);
  double best = std::numeric_limits<double>::infinity();
  for (unsigned cuts = 0; cuts < 1u << (p.layers - 1); ++cuts) {
    std::vector<std::pair<int, int>> stages;
    int begin = 0;
    for (int i = 0; i < p.layers; ++i) {
      if (i + 1 == p.layers || (cuts >> i & 1)) {
        stages.emplace_back(begin, i + 1);
        begin = i + 1;
      }
    }
    const int s = static_cast<int>(stages.size());
    double load = 0, first = 0;
    bool fits = true;
    for (int i = 0; i < s; ++i) {
      double time = 0, weights = 0, stash = 0;
      for (int l = stages[i].first; l < stages[i].second; ++l) {
        time += layers[l].forward_s + layers[l].backward_s;
        weights += layers[l].parameter_bytes;
        stash += layers[l].activation_bytes;
      }
      if (i > 0) time += p.edges[stages[i].first - 1].bytes / p.bandwidth;
      if (i + 1 < s) time += p.edges[stages[i].second - 1].bytes / p.bandwidth;
      fits &= 2 * weights + stash * (s - i) <= p.memory_bytes;
      load = std::max(load, time);
      if (i == 0) first = weights;
    }
    if (!fits) continue;
    for (int d = 1; d * s <= p.accelerators && d <= p.microbatches; ++d) {
      best = std::min(best, load * ((p.microbatches + d - 1) / d + s - 1) +
                                4.0 * (d - 1) * first / (d * p.bandwidth));
    }
  }
  return best;
}

TEST(PhazeTest, EqualsBruteForceOnChains) {
  std::mt19937 rng(11);
  for (int round = 0; round < 60; ++round) {
    PhazeProblem p;
    p.layers = 2 + static_cast<int>(rng() % 5);
    for (int i = 0; i + 1 < p.layers; ++i) p.edges.push_back({i, i + 1, 1.0 * (rng() % 4)});
    p.accelerators = 1 + static_cast<int>(rng() % 8);
    p.microbatches = 1 + static_cast<int>(rng() % 9);
    p.bandwidth = 5;
    p.memory_bytes = 10 + static_cast<double>(rng() % 60);
    for (int i = 0; i < p.layers; ++i) {
      p.by_width[1].push_back(
          {1.0 + rng() % 5, 2.0 + rng() % 5, 1.0 + rng() % 3, 1.0 + rng() % 4, false});
    }
    const double expected = BruteForce(p);
    const auto plan = PlacePhaze(p);
    if (!plan.ok()) {
      EXPECT_EQ(expected, std::numeric_limits<double>::infinity());
      continue;
    }
    EXPECT_NEAR(plan->batch_s, expected, 1e-9);
  }
}

}  // namespace
}  // namespace foretrace
