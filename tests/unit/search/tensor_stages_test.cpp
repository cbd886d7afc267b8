// Tensor parallelism of stages: what a width costs, and programs that choose it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "simulator/search/graph_searchers.h"
#include "simulator/search/workload_problem.h"

namespace foretrace {
namespace {

// Four layers of two GEMMs each, divided between them (columns, then rows): 1 GFLOP and 100 M
// parameters a GEMM and sample.
Workload Layers() {
  Workload w;
  w.dtype = DType::kFloat16;
  for (int32_t i = 0; i < 8; ++i) {
    Operator op;
    op.name = fmt::format("GEMM {}", i);
    op.parameters = op.active_parameters = 100'000'000;
    op.forward_flop = Flop(1e9);
    op.backward_flop = Flop(2e9);
    op.output_bytes = Bytes(1'000'000);
    op.tensor_ways = 8;
    op.reduces_gradient = i % 2 == 0;
    op.reduces_output = i % 2 == 1;
    (i % 2 == 0 ? op.stash_sequence : op.stash_tensor) = Bytes(1'000'000);
    w.operators.push_back(std::move(op));
    if (i > 0) w.edges.push_back({i - 1, i, Bytes(1'000'000)});
  }
  return w;
}

PartitionDevice Device(int32_t devices, double gigabytes) {
  PartitionDevice d;
  d.flop_rate = FlopRate::PerSecond(1e12);
  d.memory_bandwidth = Bandwidth::BytesPerSecond(1e15);
  d.network = Bandwidth::BytesPerSecond(1e10);
  d.memory = Bytes(static_cast<int64_t>(gigabytes * 1e9));
  d.bytes_per_parameter = 16;
  d.devices = devices;
  d.widths = {2, 4};
  d.tensor_network = Bandwidth::BytesPerSecond(1e11);
  d.tensor_latency = SimTime::FromUs(20);
  return d;
}

// By hand, at width 4 and two samples: 2 x 1e9 / 4 FLOP at 1e12/s, and 2 x 3/4 of 2 MB over 1e11
// B/s after 20 us where the result (or, backward, the input's gradient) is summed.
TEST(TensorStages, WhatAWidthCosts) {
  const Workload layers = Layers();
  const GraphPipeProblem p = GraphPipeProblemOf(layers, Device(8, 100), 4);
  ASSERT_EQ(p.widths, (std::vector<int32_t>{2, 4}));
  const GraphPipeOp &columns = p.PartOf(2, 4), &rows = p.PartOf(3, 4);
  EXPECT_NEAR(columns.forward[1].seconds(), 0.5e-3, 1e-12);
  EXPECT_NEAR(columns.backward[1].seconds(), 1e-3 + 5e-5, 1e-12);
  EXPECT_NEAR(rows.forward[1].seconds(), 0.5e-3 + 5e-5, 1e-12);
  EXPECT_NEAR(rows.backward[1].seconds(), 1e-3, 1e-12);
  EXPECT_EQ(columns.fixed_bytes.count(), 1.6e9 / 4);
  EXPECT_EQ(columns.gradient_bytes.count(), 2e8 / 4);
  // The input of columns is whole on every device, that of rows divided.
  EXPECT_EQ(columns.stash_bytes.count(), 1e6);
  EXPECT_EQ(rows.stash_bytes.count(), 1e6 / 4);
  // The first has no input whose gradient is summed.
  EXPECT_NEAR(p.PartOf(0, 4).backward[1].seconds(), 1e-3, 1e-12);
  EXPECT_EQ(&p.PartOf(2, 1), &p.ops[2]);
}

// Two replicas of four devices each: half of a micro-batch of four takes every GEMM's part on
// two samples, and gradients of a quarter of the parameters go over a ring of two.
TEST(TensorStages, StagesOfReplicas) {
  const Workload layers = Layers();
  GraphPipeProblem p = GraphPipeProblemOf(layers, Device(8, 100), 4);
  p.sequential = true;
  GraphPipeStage stage;
  for (int32_t i = 0; i < 8; ++i) stage.ops.push_back(i);
  stage.devices = 8;
  stage.tensor = 4;
  stage.config = {4, 1};
  const auto plan = EvaluateStages(p, {stage});
  ASSERT_TRUE(plan.ok()) << plan.status();
  const double compute = 8 * 1.5e-3 + 7 * 5e-5;
  EXPECT_NEAR(plan->iteration.seconds(), compute + 8 * 2e8 / 4 / 1e10, 1e-9);
  EXPECT_NEAR(plan->stages[0].memory.count(), 8 * 4e8 + 4 * (1e6 + 0.25e6) * 4 / 2, 1);
  EXPECT_EQ(plan->devices, 8);
  // Of these the sums are no computation: four of 2 MB forward, backward three, since the first
  // operator has no input.
  const TimedStage timed = TimedPipelineOf(p, *plan).stages[0];
  EXPECT_EQ(timed.forward_exchange.count, 4);
  EXPECT_EQ(timed.backward_exchange.count, 3);
  EXPECT_EQ(timed.forward_exchange.bytes, Bytes(4 * 2'000'000));
  EXPECT_NEAR(timed.forward_exchange.time.seconds(), 4 * 5e-5, 1e-12);
  EXPECT_NEAR(timed.backward_exchange.time.seconds(), 3 * 5e-5, 1e-12);
  stage.tensor = 3;
  EXPECT_THAT(std::string(EvaluateStages(p, {stage}).status().message()),
              testing::HasSubstr("tensor-parallel widths are 1, 2, 4"));
  stage.tensor = 4;
  stage.devices = 6;
  EXPECT_THAT(std::string(EvaluateStages(p, {stage}).status().message()),
              testing::HasSubstr("6 devices are no multiple"));
}

// A GEMM's states take 1.6 GB: with 1 GB a device no pipeline fits, while Piper's and Phaze's
// programs divide them. With enough memory for one GEMM a device they need not.
TEST(TensorStages, ProgramsDivideWhatDoesNotFit) {
  const Workload layers = Layers();
  const GraphPipeProblem tight = GraphPipeProblemOf(layers, Device(16, 1), 16);
  EXPECT_FALSE(SearchGraphPipe(tight).ok());
  GraphPipeProblem whole = GraphPipeProblemOf(layers, Device(16, 1), 16);
  whole.widths.clear();
  for (GraphPipeOp& op : whole.ops) op.parts.clear();
  for (const auto& search : {SearchPiper, SearchPhaze}) {
    const auto found = search(tight);
    ASSERT_TRUE(found.ok()) << found.status();
    for (const GraphPipeStage& stage : found->plan.stages) {
      EXPECT_GE(stage.tensor, 2);
      EXPECT_EQ(stage.devices % stage.tensor, 0);
      EXPECT_LE(stage.memory.count(), 1e9);
    }
    EXPECT_LE(found->plan.devices, 16);
    EXPECT_FALSE(search(whole).ok());
  }
}

// With widths as options a program's plan is never worse by its own formula than without.
TEST(TensorStages, MoreOptionsAreNeverWorse) {
  const Workload layers = Layers();
  for (const double gigabytes : {2.0, 4.0, 20.0}) {
    const GraphPipeProblem p = GraphPipeProblemOf(layers, Device(8, gigabytes), 32);
    GraphPipeProblem whole = p;
    whole.widths.clear();
    for (GraphPipeOp& op : whole.ops) op.parts.clear();
    for (const int32_t b : {1, 2, 4}) {
      const auto with = PartitionPiper(PiperProblemOf(p, b)),
                 without = PartitionPiper(PiperProblemOf(whole, b));
      if (!without.ok()) continue;
      ASSERT_TRUE(with.ok());
      EXPECT_LE(with->time_per_sample.seconds(), without->time_per_sample.seconds() * (1 + 1e-9));
      const auto phaze = PlacePhaze(PhazeProblemOf(p, {b})),
                 plain = PlacePhaze(PhazeProblemOf(whole, {b}));
      ASSERT_EQ(phaze.ok(), plain.ok());
      if (!plain.ok()) continue;
      EXPECT_LE(phaze->batch.seconds(), plain->batch.seconds() * (1 + 1e-12));
    }
  }
}

}  // namespace
}  // namespace foretrace
