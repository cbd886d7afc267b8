#include "simulator/search/phaze.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "tests/unit/search/partition_fixture.h"

namespace foretrace {
namespace {

PhazeLayer Layer(double forward_s, double backward_s, double parameters, double activations,
                 bool sliced) {
  return {RealSeconds(forward_s), RealSeconds(backward_s), RealBytes(parameters),
          RealBytes(activations), sliced};
}

// Embedding, eight layers, head; 16 accelerators, 64 microbatches, 4 GiB/s, edges of 1 MiB.
PhazeProblem Chain(double optimizer, double memory, const std::vector<int32_t>& widths,
                   bool recompute) {
  PhazeProblem p;
  p.layers = 10;
  p.accelerators = 16;
  p.samples = 64;
  p.bandwidth = Bandwidth::BytesPerSecond(4.0 * 1073741824);
  p.memory = RealBytes(memory);
  p.optimizer_factor = optimizer;
  p.activations = {recompute ? PhazeActivations::kRecompute : PhazeActivations::kStash};
  for (const int32_t t : widths) p.options.push_back({t, 1});
  p.layers_of = [](const PhazeOption& option) {
    const int32_t t = option.width;
    const double extra = t > 1 ? 0.001 : 0;
    PhazeLayers model;
    model.layers.assign(10, Layer(.01 / t + extra, .02 / t + extra, 1e8 / t, 2e8 / t, true));
    model.layers.front() = model.layers.back() = Layer(.002, .003, 5e7 / t, 1e7, false);
    for (int32_t i = 0; i < 9; ++i) model.edges.push_back({i, i + 1, RealBytes(1048576)});
    return model;
  };
  return p;
}

// What the published program answers. Case A by hand: load of {0, 1, 2} is .005 + 2 * .03 plus one
// transfer of 1 MiB at 4 GiB/s; 16 + 4 - 1 = 19 of them; and 4 * 3/4 * 2.5e8 / (4 GiB/s).
TEST(PhazeTest, PublishedAnswers) {
  const auto a = PlacePhaze(Chain(0, 4e9, {1}, false));
  ASSERT_TRUE(a.ok()) << a.status();
  EXPECT_NEAR(a->batch.seconds(), 1.4142616546154023, 1e-12);
  EXPECT_EQ(a->data_parallel, 4);
  ASSERT_EQ(a->stages.size(), 4u);
  EXPECT_EQ(a->stages[0].layers, (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(a->stages[3].layers, (std::vector<int32_t>{7, 8, 9}));
  const auto b = PlacePhaze(Chain(0, 4e9, {1}, true));
  ASSERT_TRUE(b.ok()) << b.status();
  EXPECT_NEAR(b->batch.seconds(), 1.6824148041009905, 1e-12);
  EXPECT_EQ(b->data_parallel, 8);
  EXPECT_EQ(b->stages.size(), 2u);
  const auto c = PlacePhaze(Chain(1, 1e9, {1, 2, 4}, false));
  ASSERT_TRUE(c.ok()) << c.status();
  EXPECT_NEAR(c->batch.seconds(), 1.4794435354471207, 1e-12);
  EXPECT_EQ(c->data_parallel, 2);
  EXPECT_EQ(c->width, 4);
  const auto d = PlacePhaze(Chain(1, 1e9, {1, 2, 4}, true));
  ASSERT_TRUE(d.ok()) << d.status();
  EXPECT_NEAR(d->batch.seconds(), 1.7813020032644273, 1e-12);
  EXPECT_EQ(d->stages[0].layers, (std::vector<int32_t>{0, 1, 2, 3}));
}

// One plan chooses among all four cases' options: with SGD and 4 GB the best of A and B is A. A
// micro-batch of two samples takes twice as long a pass here, so it is never better.
TEST(PhazeTest, OnePlanChoosesWidthMicroBatchAndRecomputation) {
  PhazeProblem p = Chain(1, 1e9, {1, 2, 4}, false);
  p.activations = {PhazeActivations::kRecompute, PhazeActivations::kStash};
  const auto of_one = p.layers_of;
  p.options.clear();
  for (const int32_t b : {2, 1}) {
    for (const int32_t t : {1, 2, 4}) p.options.push_back({t, b});
  }
  p.layers_of = [&](const PhazeOption& o) -> absl::StatusOr<PhazeLayers> {
    auto model = of_one(o);
    for (PhazeLayer& l : model->layers) {
      l.forward = o.micro_batch * l.forward;
      l.backward = o.micro_batch * l.backward;
      l.activation_bytes = o.micro_batch * l.activation_bytes;
    }
    return model;
  };
  const auto plan = PlacePhaze(p);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_NEAR(plan->batch.seconds(), 1.4794435354471207, 1e-12);
  EXPECT_EQ(plan->micro_batch, 1);
  EXPECT_EQ(plan->width, 4);
  EXPECT_FALSE(plan->recompute);
  // Half the memory leaves recomputation alone.
  p.memory = RealBytes(4.5e8);
  const auto tight = PlacePhaze(p);
  ASSERT_TRUE(tight.ok()) << tight.status();
  EXPECT_TRUE(tight->recompute);
  p.activations = {PhazeActivations::kStash};
  const auto stashed = PlacePhaze(p);
  EXPECT_TRUE(!stashed.ok() || stashed->batch.seconds() > tight->batch.seconds());
}

// Layers of options that cannot be the best are not asked for.
TEST(PhazeTest, OptionsAreLeftOutByTheirBounds) {
  PhazeProblem p = Chain(1, 1e9, {1, 2, 4}, false);
  const auto of_one = p.layers_of;
  std::vector<int32_t> asked;
  p.layers_of = [&](const PhazeOption& o) {
    asked.push_back(o.width);
    return of_one(o);
  };
  p.options = {{1, 1, RealSeconds(2)}, {2, 1, RealSeconds(1e9)}, {4, 1, RealSeconds(1)}};
  ASSERT_TRUE(PlacePhaze(p).ok());
  EXPECT_EQ(asked, (std::vector<int32_t>{4}));
  p.bound_below = RealSeconds(0.5);
  const auto none = PlacePhaze(p);
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->stages.empty());
  p.options = {{1, 1, RealSeconds::Infinite()}};
  EXPECT_EQ(PlacePhaze(p).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(PhazeTest, EvenPlansUseAllAcceleratorsAndWholeMicroBatches) {
  PhazeProblem p = Chain(0, 4e9, {1}, false);
  p.accelerators = 15;
  p.samples = 60;
  p.even = true;
  const auto plan = PlacePhaze(p);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->data_parallel * static_cast<int32_t>(plan->stages.size()), 15);
  EXPECT_EQ(60 % plan->data_parallel, 0);
}

TEST(PhazeTest, FixedPlacements) {
  EXPECT_NEAR(EvaluateFixedPlacement(Chain(0, 4e9, {1}, true), 4, 1, 4)->batch.seconds(),
              1.9144124615192413, 1e-12);
  EXPECT_NEAR(EvaluateFixedPlacement(Chain(1, 1e9, {1, 2, 4}, true), 4, 2, 2)->batch.seconds(),
              2.0034695184230804, 1e-12);
}

TEST(PhazeTest, InfeasibleAndInvalid) {
  EXPECT_EQ(PlacePhaze(Chain(0, 1e6, {1}, false)).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(PlacePhaze({}).status().code(), absl::StatusCode::kInvalidArgument);
}

// Every chain of stages on chain graphs, width 1, stash kept.
RealSeconds BruteForce(const PhazeProblem& p, const PhazeLayers& model) {
  const auto& layers = model.layers;
  RealSeconds best = RealSeconds::Infinite();
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
    RealSeconds load;
    RealBytes first;
    bool fits = true;
    for (int i = 0; i < s; ++i) {
      RealSeconds time;
      RealBytes weights, stash;
      for (int l = stages[i].first; l < stages[i].second; ++l) {
        time += layers[l].forward + layers[l].backward;
        weights += layers[l].parameter_bytes;
        stash += layers[l].activation_bytes;
      }
      if (i > 0) time += model.edges[stages[i].first - 1].bytes / p.bandwidth;
      if (i + 1 < s) time += model.edges[stages[i].second - 1].bytes / p.bandwidth;
      fits &= 2 * weights + (s - i) * stash <= p.memory;
      load = std::max(load, time);
      if (i == 0) first = weights;
    }
    if (!fits) continue;
    for (int d = 1; d * s <= p.accelerators && d <= p.samples; ++d) {
      best = std::min(
          best, ((p.samples + d - 1) / d + s - 1) * load + 4.0 * (d - 1) / d * first / p.bandwidth);
    }
  }
  return best;
}

TEST(PhazeTest, EqualsBruteForceOnChains) {
  std::mt19937 rng(11);
  for (int round = 0; round < 60; ++round) {
    PhazeProblem p;
    p.layers = 2 + static_cast<int>(rng() % 5);
    PhazeLayers model;
    for (int i = 0; i + 1 < p.layers; ++i) {
      model.edges.push_back({i, i + 1, RealBytes(1.0 * (rng() % 4))});
    }
    p.accelerators = 1 + static_cast<int>(rng() % 8);
    p.samples = 1 + static_cast<int>(rng() % 9);
    p.bandwidth = Bandwidth::BytesPerSecond(5);
    p.memory = RealBytes(10 + static_cast<double>(rng() % 60));
    for (int i = 0; i < p.layers; ++i) {
      model.layers.push_back(
          Layer(1.0 + rng() % 5, 2.0 + rng() % 5, 1.0 + rng() % 3, 1.0 + rng() % 4, false));
    }
    p.options = {{1, 1}};
    p.layers_of = [&](const PhazeOption&) { return model; };
    const RealSeconds expected = BruteForce(p, model);
    const auto plan = PlacePhaze(p);
    if (!plan.ok()) {
      EXPECT_EQ(expected.seconds(), RealSeconds::Infinite().seconds());
      continue;
    }
    EXPECT_NEAR(plan->batch.seconds(), expected.seconds(), 1e-9);
  }
}

}  // namespace
}  // namespace foretrace
