#include "simulator/planning/mappings/phaze_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace foretrace {
namespace {

// Layers of 1 ms forward and 2 ms backward on a chain whose edges carry `bytes`.
PhazeProblem Chain(int32_t layers, int32_t microbatches, double bytes) {
  PhazeProblem p;
  p.layers = layers;
  p.samples = microbatches;
  p.accelerators = layers * 8;
  p.bandwidth = Bandwidth::BytesPerSecond(1e9);
  p.memory = RealBytes(1e12);
  p.options = {{1, 1}};
  p.layers_of = [layers, bytes](const PhazeOption&) {
    PhazeLayers model;
    for (int32_t i = 0; i < layers; ++i) {
      model.layers.push_back(
          {RealSeconds(1e-3), RealSeconds(2e-3), RealBytes(1e6), RealBytes(1e3), false});
      if (i > 0) model.edges.push_back({i - 1, i, RealBytes(bytes)});
    }
    return model;
  };
  return p;
}

// Equal stages and nothing sent: the closed form is exact, load (n + s - 1) = 3 ms (6 + 4 - 1).
TEST(PhazeLowering, EqualStagesTakeTheClosedForm) {
  const PhazeProblem problem = Chain(4, 6, 0);
  const auto plan = EvaluateFixedPlacement(problem, 4, 1, 1);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_NEAR(plan->batch.seconds(), 27e-3, 1e-12);
  const auto simulated = SimulatePlacement(problem, *plan);
  ASSERT_TRUE(simulated.ok()) << simulated.status();
  EXPECT_NEAR(simulated->seconds(), 27e-3, 1e-9);
}

// One stage of two layers, 8 replicas: ceil(20 / 8) = 3 micro-batches of 6 ms, then
// 4 * 7 / 8 * 2 MB / 1 GB/s = 7 ms.
TEST(PhazeLowering, GradientsAreReducedAtTheEnd) {
  const PhazeProblem problem = Chain(2, 20, 0);
  const auto plan = EvaluateFixedPlacement(problem, 1, 1, 8);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto simulated = SimulatePlacement(problem, *plan);
  ASSERT_TRUE(simulated.ok()) << simulated.status();
  EXPECT_NEAR(simulated->seconds(), 25e-3, 1e-9);
  EXPECT_NEAR(plan->batch.seconds(), 25e-3, 1e-12);
}

// Two stages, one micro-batch, 0.5 ms a transfer: 1 + 0.5 + 1 + 2 + 0.5 + 2.
TEST(PhazeLowering, TransfersAreOnTheWay) {
  const PhazeProblem problem = Chain(2, 1, 5e5);
  const auto plan = EvaluateFixedPlacement(problem, 2, 1, 1);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto simulated = SimulatePlacement(problem, *plan);
  ASSERT_TRUE(simulated.ok()) << simulated.status();
  EXPECT_NEAR(simulated->seconds(), 7e-3, 1e-9);
}

// With recomputation the first of two stages repeats 1 ms: 1 + 1 + 2 + (1 + 2).
TEST(PhazeLowering, StagesButTheLastRepeatTheForwardPass) {
  const PhazeProblem problem = Chain(2, 1, 0);
  auto plan = EvaluateFixedPlacement(problem, 2, 1, 1);
  ASSERT_TRUE(plan.ok()) << plan.status();
  plan->recompute = true;
  const auto simulated = SimulatePlacement(problem, *plan);
  ASSERT_TRUE(simulated.ok()) << simulated.status();
  EXPECT_NEAR(simulated->seconds(), 7e-3, 1e-9);
}

// Stages that differ, with transfers: the fast evaluator of pipelines and the lowered plan agree to
// the picosecond.
TEST(PhazeLowering, PipelineTimingEqualsTheLoweredPlan) {
  std::mt19937 random(3);
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int round = 0; round < 60; ++round) {
    const int32_t layers = pick(2, 9);
    PhazeProblem problem = Chain(layers, pick(1, 20), 1e4 * pick(0, 100));
    const auto model = problem.layers_of({1, 1});
    ASSERT_TRUE(model.ok());
    PhazeLayers uneven = *model;
    for (PhazeLayer& layer : uneven.layers) {
      layer.forward = 0.1 * pick(1, 20) * layer.forward;
      layer.backward = 0.1 * pick(1, 20) * layer.backward;
    }
    problem.layers_of = [uneven](const PhazeOption&) { return uneven; };
    auto placement = EvaluateFixedPlacement(problem, pick(1, layers), 1, pick(1, 3));
    ASSERT_TRUE(placement.ok()) << placement.status();
    placement->recompute = pick(0, 1) == 1;
    const auto plan = PlanOf(problem, *placement);
    ASSERT_TRUE(plan.ok()) << plan.status();
    TimedPipeline pipeline;
    pipeline.mini_batch = plan->mini_batch;
    for (const PlannedStage& stage : plan->stages) {
      TimedStage timed;
      timed.passes = stage.passes;
      timed.forward = {stage.bodies[0].steps[0].duration};
      timed.backward = {stage.bodies[1].steps[0].duration};
      pipeline.stages.push_back(timed);
    }
    for (const PlannedEdge& edge : plan->edges) pipeline.edges.push_back(edge.ends);
    const auto timing = TimePipeline(pipeline);
    ASSERT_TRUE(timing.ok()) << timing.status();
    SimTime end;
    for (size_t s = 0; s < plan->stages.size(); ++s) {
      end = std::max(end, timing->stage_end[s] + plan->stages[s].end.steps[0].duration);
    }
    const auto simulated = SimulatePlacement(problem, *placement);
    ASSERT_TRUE(simulated.ok()) << simulated.status();
    EXPECT_EQ(simulated->ps(), end.ps()) << "round " << round;
  }
}

}  // namespace
}  // namespace foretrace
