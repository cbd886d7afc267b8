#include "simulator/planning/placement/traced_placement.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "simulator/capture/traced_regions.h"
#include "tests/unit/planning/recording_script.h"

namespace foretrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// x [2, 4] W [4, 8] on 20 us, relu on 10 us right behind; the device is done at 50, the CPU at 52.
TraceStore TwoKernels(bool read_twice = false) {
  Recording r;
  r.Step(0, 60);
  r.Op("aten::mm", 10, 20, 22, 42, {{1, {2, 4}}, {2, {4, 8}}}, {3, {2, 8}});
  r.Op("aten::relu", 20, 30, 42, 52, {{3, {2, 8}}}, {4, {2, 8}});
  if (read_twice) r.Op("aten::tanh", 30, 40, 52, 57, {{3, {2, 8}}}, {5, {2, 8}});
  r.Synchronize(45, 58);
  return r.Store();
}

Backend Fusing() {
  auto backend = ParseBackend(
      "name: fusing\nsource: s\nkind: compiler\ndevice: cuda\n"
      "rule: {classes: {fusable: [dense], elementwise: [relu, tanh]}, fuses: {fusable: "
      "[elementwise]}}\n",
      "b.yaml");
  EXPECT_TRUE(backend.ok()) << backend.status();
  return *backend;
}

TracedPlacementSetup SetupOf(double fused_us) {
  TracedPlacementSetup setup;
  setup.backends = {Fusing()};
  EXPECT_TRUE(setup.costs
                  .Parse(fmt::format("op,shape,time_us,backend\n\"relu(dense(*,*))\",data=2x4,{},"
                                     "fusing\n",
                                     fused_us),
                         "c.csv")
                  .ok());
  setup.launch = SimTime();
  return setup;
}

TEST(TracedRegions, OperatorsWithTheirKernelsAndProducers) {
  const TraceStore store = TwoKernels();
  const TracedRegions regions = RegionsOf(store, store.ranks()[0], 1);
  ASSERT_EQ(regions.dag.size(), 2);
  EXPECT_EQ(regions.dag.op(0).type, "dense");
  EXPECT_EQ(regions.dag.op(0).shape, "2x4");
  EXPECT_THAT(regions.dag.op(1).inputs, ElementsAre(0));
  EXPECT_THAT(regions.recorded, ElementsAre(Us(20), Us(10)));
  EXPECT_TRUE(regions.by_storage);
}

// Momentum of two parameters, of 6 and 10 elements: mul_ and add_ once for each on the buffers,
// then add_ once more on the parameters.
TEST(TracedRegions, AnUpdateIsOneOperatorOfManyKernels) {
  Recording r;
  r.Step(0, 100);
  r.Op("aten::mm", 2, 8, 10, 20, {{1, {2, 4}}, {2, {4, 8}}}, {3, {2, 8}});
  r.Node(NodeKind::kCpuOp, 0, "Optimizer.step#SGD.step", LaneIndex(0), 9, 60);
  double at = 10;
  for (const char* name : {"aten::mul_", "aten::add_", "aten::add_"}) {
    for (const int64_t size : {6, 10}) {
      r.Op(name, at, at + 5, at + 12, at + 15, {{size, {size}}}, {size, {size}});
      at += 6;
    }
  }
  r.Synchronize(70, 80);
  const TraceStore store = r.Store();
  const TracedRegions regions = RegionsOf(store, store.ranks()[0], 1);
  ASSERT_EQ(regions.dag.size(), 2);
  EXPECT_EQ(regions.dag.op(1).type, "sgd_update");
  EXPECT_EQ(regions.kernels[1].size(), 6U);
  EXPECT_EQ(regions.recorded[1], Us(18));
  const auto& update = std::get<OptimizerOp>(regions.dag.op(1).calls[0].shape);
  EXPECT_EQ(update.params, 16);
  EXPECT_EQ(update.tensors, 2);
  EXPECT_EQ(update.kind, OptimizerKind::kSgdMomentum);
  EXPECT_EQ(update.impl, OptimizerImpl::kLoop);
}

// 30 us of two kernels become 12 of one, with one launch less.
TEST(TracedPlacement, AFusedKernelShortensTheStep) {
  const auto placed = PlaceTraces(TwoKernels(), SetupOf(12));
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_EQ(placed->kernels, 2);
  EXPECT_EQ(placed->kernels_gone, 1);
  EXPECT_EQ(placed->replaced, Us(30));
  EXPECT_EQ(placed->replacement, Us(12));
  // From the begin of the step to the first launch 18 us, and its own 2.
  EXPECT_EQ(placed->cpu_saved, Us(20));
  ASSERT_EQ(placed->regions.size(), 1U);
  EXPECT_EQ(placed->regions[0].types, "dense+relu");
  EXPECT_GE(placed->step_before - placed->step_after, Us(18));
  // The graph that was placed: the recorded kernels are those of a first backend.
  ASSERT_TRUE(placed->graph.has_value());
  EXPECT_EQ(placed->graph->backends[0].name, "recorded");
  EXPECT_EQ(placed->graph->backends[1].name, "fusing");
  EXPECT_EQ(placed->graph->choices.size(), 3U);
  ASSERT_EQ(placed->graph->placement.choices.size(), 1U);
  EXPECT_EQ(placed->graph->placement.cost, Us(12));
  EXPECT_EQ(placed->graph->dag->Find("relu#1"), 1);
}

TEST(TracedPlacement, ASlowerBackendChangesNothing) {
  const auto placed = PlaceTraces(TwoKernels(), SetupOf(31));
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_TRUE(placed->regions.empty());
  EXPECT_EQ(placed->step_before, placed->step_after);
}

// A result that another operator reads too would not be written by the fused kernel.
TEST(TracedPlacement, WhatIsReadTwiceIsNotFused) {
  const auto placed = PlaceTraces(TwoKernels(true), SetupOf(12));
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_EQ(placed->kernels_gone, 0);
}

// Work of autograd makes it a training step, in which an inference engine has no part.
TEST(TracedPlacement, InferenceEnginesDoNotTrain) {
  Recording r;
  r.Step(0, 60);
  r.Op("aten::mm", 10, 20, 22, 42, {{1, {2, 4}}, {2, {4, 8}}}, {3, {2, 8}});
  r.Op("aten::relu", 20, 30, 42, 52, {{3, {2, 8}}}, {4, {2, 8}});
  r.Node(NodeKind::kCpuOp, 0, "MmBackward0", LaneIndex(0), 31, 41);
  r.Op("aten::mm", 32, 40, 52, 57, {{4, {2, 8}}, {2, {8, 4}}}, {6, {2, 4}});
  r.Synchronize(45, 58);
  const TraceStore store = r.Store();
  TracedPlacementSetup setup = SetupOf(12);
  setup.backends[0].inference_only = true;
  const auto placed = PlaceTraces(store, setup);
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_EQ(placed->kernels_gone, 0);
  EXPECT_THAT(placed->notes, ::testing::Contains(HasSubstr("inference alone")));
  setup.backends[0].inference_only = false;
  EXPECT_EQ(PlaceTraces(store, setup)->kernels_gone, 1);
}

TEST(TracedPlacement, NothingToPriceIsOneLine) {
  TracedPlacementSetup setup;
  setup.backends = {Fusing()};
  const auto placed = PlaceTraces(TwoKernels(), setup);
  EXPECT_FALSE(placed.ok());
  setup.device = "no-such-device";
  EXPECT_THAT(std::string(PlaceTraces(TwoKernels(), setup).status().message()),
              HasSubstr("no-such-device"));
}

}  // namespace
}  // namespace foretrace
