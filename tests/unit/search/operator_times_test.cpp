// Stage graphs take what the chain of mappings' costs says: kernels of calls, exchanges of
// networks.
#include "simulator/search/operator_times.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "simulator/search/workload_problem.h"
#include "tests/support/round_links.h"

namespace foretrace {
namespace {

// 50 TFLOP/s and 500 GB/s attainable, 5 us to issue a kernel, round links.
ClusterParameters Cluster() {
  ClusterParameters c;
  c.peak = FlopRate::Teraflops(100);
  c.matrix_efficiency = 0.5;
  c.peak_memory = Bandwidth::GBps(1000);
  c.memory_efficiency = 0.5;
  c.issue = SimTime::FromUs(5);
  c.exchanges = std::make_shared<RoundExchanges>(RoundLinks());
  return c;
}

// A call on four samples.
Workload Of(OperatorCall::Shape shape) {
  Workload w;
  w.call_samples = 4;
  Operator op;
  op.name = "gemm";
  op.calls = {{std::move(shape), DType::kFloat16}};
  op.parameters = op.active_parameters = 1000;
  op.tensor_ways = 8;
  op.reduces_gradient = true;
  op.forward_flop = op.backward_flop = Flop(1);
  w.operators = {op, op};
  w.operators[1].name = "next";
  w.edges = {{0, 1, Bytes(500'000)}};
  return w;
}

// 8 samples are 2,048 rows of 8,192 by 8,192: 2^38 FLOP in 5.498 ms, its 201 MB in 0.4. Backward
// twice that. Four devices have a quarter of the columns each.
TEST(OperatorTimes, KernelsOfCallsOnOtherNumbersOfSamples) {
  const Workload w = Of(LinearOp{1024, 8192, 8192});
  const ClusterParameters cluster = Cluster();
  const OperatorTimes times(w, cluster);
  const double forward = 274877906944.0 / 50e12;
  const Operator& op = w.operators[0];
  EXPECT_NEAR(times.Kernels(op, 1, 8, Direction::kForward)->seconds(), forward, 1e-9);
  EXPECT_NEAR(times.Kernels(op, 1, 8, Direction::kBackward)->seconds(), 2 * forward, 1e-9);
  EXPECT_NEAR(times.Kernels(op, 4, 8, Direction::kForward)->seconds(), forward / 4, 1e-9);
  EXPECT_NEAR(times.sources().share(EstimateSource::kAnalytic), 1, 1e-12);
}

// Kernels of no length take what they take to be issued: one forward, two backward.
TEST(OperatorTimes, SmallKernelsWaitToBeIssued) {
  const Workload w = Of(LinearOp{4, 8, 8});
  const ClusterParameters cluster = Cluster();
  const OperatorTimes times(w, cluster);
  EXPECT_NEAR(times.Kernels(w.operators[0], 1, 1, Direction::kForward)->seconds(), 5e-6, 1e-12);
  EXPECT_NEAR(times.Kernels(w.operators[0], 1, 1, Direction::kBackward)->seconds(), 10e-6, 1e-12);
}

TEST(OperatorTimes, NothingIsSaidOfPartsOfRowsOrWithoutCalls) {
  Workload w = Of(LinearOp{2, 8, 8});
  const ClusterParameters cluster = Cluster();
  const OperatorTimes times(w, cluster);
  EXPECT_FALSE(times.Kernels(w.operators[0], 1, 1, Direction::kForward).has_value());
  w.operators[0].calls.clear();
  EXPECT_FALSE(times.Kernels(w.operators[0], 1, 4, Direction::kForward).has_value());
}

// Among four neighbours 1 MB takes 2 x 3/4 x 1,000 kB at 100 kB/us after 20 us: 35 us, which the
// gradient of the second operator's input (two samples of 500 kB) takes beside its kernels.
TEST(OperatorTimes, ExchangesAreTheNetworks) {
  const Workload w = Of(LinearOp{4, 8, 8});
  const ClusterParameters cluster = Cluster();
  const OperatorTimes times(w, cluster);
  EXPECT_NEAR(times.AllReduce(4, 1, RealBytes(1e6)).us(), 35, 1e-6);
  PartitionDevice device;
  device.flop_rate = FlopRate::PerSecond(1);
  device.memory_bandwidth = device.network = Bandwidth::BytesPerSecond(1);
  device.tensor_network = device.network;
  device.widths = {4};
  device.times = &times;
  const GraphPipeProblem p = GraphPipeProblemOf(w, device, 2);
  EXPECT_NEAR(p.PartOf(1, 4).backward[1].us(), 45, 1e-6);
  EXPECT_NEAR(p.PartOf(1, 4).forward[1].us(), 5, 1e-6);
  EXPECT_TRUE(times.status().ok());
}

// Two replicas of one stage of one operator, 1 s forward and 1 s backward: 2 s, and the reduction
// of 1 MB: 2 x 1/2 of it at 1 MB/s, or what is said.
TEST(GradientReductions, AreTheProblems) {
  GraphPipeProblem p;
  GraphPipeOp op;
  op.forward = op.backward = {RealSeconds(1), RealSeconds(1)};
  op.gradient_bytes = RealBytes(1e6);
  p.ops = {op};
  p.devices = 2;
  p.memory = RealBytes(1e12);
  p.bandwidth = Bandwidth::BytesPerSecond(1e6);
  p.mini_batch = 2;
  GraphPipeStage stage;
  stage.ops = {0};
  stage.devices = 2;
  stage.config.micro_batch = 2;
  const auto rings = EvaluateStages(p, {stage});
  ASSERT_TRUE(rings.ok()) << rings.status();
  EXPECT_NEAR(rings->iteration.seconds(), 3, 1e-9);
  p.all_reduce = [](int32_t replicas, int32_t span, RealBytes bytes) {
    return RealSeconds(replicas == 2 && span == 1 && bytes == RealBytes(1e6) ? 5 : 0);
  };
  const auto network = EvaluateStages(p, {stage});
  ASSERT_TRUE(network.ok()) << network.status();
  EXPECT_NEAR(network->iteration.seconds(), 7, 1e-9);
}

}  // namespace
}  // namespace foretrace
