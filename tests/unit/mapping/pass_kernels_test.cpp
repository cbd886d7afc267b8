#include "simulator/mapping/pass_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "simulator/mapping/group_costs.h"
#include "tests/unit/mapping/hand_derived.h"

namespace foretrace {
namespace {

// Kernels of 10 s that take 1.25 times as long: 12.5 s beside a collective that goes on; of one of
// 5 s, 4 s are done meanwhile, and 1 s is lost.
TEST(PassKernelsTest, WhatIsLostBesideACollective) {
  EXPECT_DOUBLE_EQ(LostBeside(10, 1.25, 100), 2.5);
  EXPECT_DOUBLE_EQ(LostBeside(10, 1.25, 12.5), 2.5);
  EXPECT_DOUBLE_EQ(LostBeside(10, 1.25, 5), 1);
  EXPECT_DOUBLE_EQ(LostBeside(10, 1, 5), 0);
}

// A fifth of 100 multiprocessors and half of 900 GB/s are held: 1.25 times as long the kernels that
// go with multiprocessors, twice those that go with memory.
TEST(PassKernelsTest, TimesAreMeansOverTheirTime) {
  const SharedDevice device{100, Bandwidth::GBps(1000), false};
  const HeldDevice held{20, true, Bandwidth::GBps(450)};
  PassKernels kernels;
  EXPECT_EQ(kernels.TimesBeside(device, held), 1);
  kernels.Add({0, 1, 0}, 2);
  kernels.Add({0, 0, 1}, 1);
  kernels.Add({0, 1, 0}, 1);
  EXPECT_DOUBLE_EQ(kernels.seconds(), 4);
  EXPECT_NEAR(kernels.TimesBeside(device, held), (3 * 1.25 + 2) / 4, 1e-9);
  PassKernels half;
  half.Add(kernels, 0.5);
  EXPECT_DOUBLE_EQ(half.seconds(), 2);
}

// All kernels go with the multiprocessors left, GEMMs among them.
class OfMultiprocessors : public DeviceMeasurements {
 public:
  Estimate KernelTime(const KernelWork& work) const override {
    return {SimTime::FromSeconds(work.flop.count() / 100e12), EstimateSource::kAnalytic, true};
  }
  std::optional<Estimate> CollectiveTime(CollectiveOp, int32_t, Bytes) const override {
    return std::nullopt;
  }
  std::optional<KernelDemand> Demand(const KernelWork&) const override {
    return KernelDemand{0, 1, 0};
  }
  SharedDevice Shared() const override { return {100, Bandwidth::GBps(1e6), false}; }
  std::string Source() const override { return "test"; }
};

// The network of round numbers, by 20 channels.
class TwentyChannels : public RoundExchanges {
 public:
  TwentyChannels() : RoundExchanges({}) {}
  absl::StatusOr<int32_t> Channels(CollectiveOp, SpacedGroup) const override { return 20; }
};

ClusterParameters Known() {
  ClusterParameters p = GemmsAlone();
  p.overlap_slowdown = 0.5;  // not taken
  p.measured = std::make_shared<const OfMultiprocessors>();
  p.exchanges = std::make_shared<const TwentyChannels>();
  return p;
}

// 20 of 100 multiprocessors: kernels that a gathering or a reduction runs beside do 0.8 of their
// work, so that a fifth of its time is lost, forward and backward, behind the last backward pass
// and beside reductions of tensor parallelism.
TEST(PassKernelsTest, LayersLoseTheMultiprocessorsOfCollectives) {
  const ClusterParameters p = Known();
  ClusterParameters free = p;
  free.exchanges = GemmsAlone().exchanges;
  free.overlap_slowdown = 0;
  ParallelMapping m = Mapping(1, 2);
  m.zero = 3;
  m.overlap_gradients = true;
  const PassTimes alone = Times(Model(), m, free), beside = Times(Model(), m, p);
  EXPECT_NEAR((beside.layer_forward - alone.layer_forward).us(), alone.Gather(true).us() / 5, 0.01);
  EXPECT_NEAR((beside.layer_backward - alone.layer_backward).us(),
              (alone.Gather(false) + alone.reduce_behind).us() / 5, 0.01);
  m.zero = 1;
  const PassTimes last_alone = Times(Model(), m, free), last = Times(Model(), m, p);
  EXPECT_EQ(last.layer_backward, last_alone.layer_backward);
  EXPECT_NEAR((last.optimizer - last_alone.optimizer).us(), last_alone.gradient_reduction.us() / 5,
              0.01);
  const PassTimes tensor_alone = Times(Model(), Mapping(4, 1), free),
                  tensor = Times(Model(), Mapping(4, 1), p);
  double lost = 0;
  for (const HiddenChain& h : HiddenOf(tensor_alone)) {
    lost += std::min(h.cover.seconds() / 4, h.time.seconds() / 5);
  }
  EXPECT_GT(lost, 0);
  EXPECT_NEAR((tensor.layer_backward - tensor_alone.layer_backward).seconds(), lost, 1e-9);
}

// Attention over a ring of two, and its gradients over two messages: steps that a message hides
// behind lose a fifth of its time, or take a quarter longer where it outlasts them.
TEST(PassKernelsTest, RingsLoseThemToTheirMessages) {
  const ClusterParameters p = Known();
  ClusterParameters free = p;
  free.exchanges = GemmsAlone().exchanges;
  free.overlap_slowdown = 0;
  TransformerConfig c = Model();
  c.fused_attention = true;
  ParallelMapping m = Mapping(1, 1);
  m.context = 2;
  m.ring = true;
  const PassTimes alone = Times(c, m, free), beside = Times(c, m, p);
  for (const bool forward : {true, false}) {
    double lost = 0;
    for (const PassExchange& e : alone.layer_exchanges.of(forward)) {
      if (!e.beside) continue;
      lost += e.count * std::min(e.cover.seconds() / 4, e.time.seconds() / 5);
    }
    EXPECT_GT(lost, 0);
    const auto pass = [&](const PassTimes& times) {
      return (forward ? times.layer_forward : times.layer_backward).seconds();
    };
    EXPECT_NEAR(pass(beside) - pass(alone), lost, 1e-9) << forward;
  }
}

// What passes wait for goes on without kernels: of a gathering the share of the pass that kernels
// have is beside them. And kernels that wait for the CPU lose what they would have waited.
TEST(PassKernelsTest, CollectivesRunBesideWaitsToo) {
  ClusterParameters p = Known(), free = p;
  free.exchanges = GemmsAlone().exchanges;
  free.overlap_slowdown = 0;
  ParallelMapping m = Mapping(4, 2);
  m.zero = 3;
  m.overlap_tensor = false;
  const PassTimes alone = Times(Model(), m, free), beside = Times(Model(), m, p);
  const double pass = alone.layer_forward.seconds();
  const double share = 1 - alone.Exchanges(true).seconds() / pass;
  ASSERT_LT(share, 0.9);
  EXPECT_NEAR((beside.layer_forward - alone.layer_forward).seconds(),
              std::min(share * alone.Gather(true).seconds() / 5, share * pass / 4), 1e-9);
  free.launch_floor = p.launch_floor = alone.layer_forward + alone.layer_forward;
  EXPECT_EQ(Times(Model(), m, p).layer_forward, Times(Model(), m, free).layer_forward);
}

// Where nothing is known of kernels, by the multiprocessors left; where those are not known either,
// by a number that was measured.
TEST(PassKernelsTest, WithoutKernelsByMultiprocessorsOrTheFlatFactor) {
  ClusterParameters p = Known();
  absl::Status status;
  const ParallelMapping m = Mapping(1, 2);
  PassKernels kernels;
  kernels.Add({0, 1, 0}, 1);
  const auto times = [&] {
    const GroupCosts groups(m, p, status);
    const HeldDevice held =
        groups.Held(CollectiveOp::kAllGather, {2, 1}, 1e9, SimTime::FromSeconds(1));
    return groups.TimesBeside(kernels, held);
  };
  EXPECT_NEAR(times(), 1.25, 1e-9);
  p.measured = nullptr;
  p.overlap_slowdown = 0.4;
  EXPECT_NEAR(times(), 1.4, 1e-9);
  p.multiprocessors = 60;
  EXPECT_NEAR(times(), 1.5, 1e-9);  // 60 of 40
  p.multiprocessors = 120;
  EXPECT_NEAR(times(), 1.2, 1e-9);
  EXPECT_TRUE(status.ok()) << status;
}

// Of a gigabyte that two devices gather each receives half, which is read once and written twice;
// what is reduced and gathered goes around twice.
TEST(PassKernelsTest, WhatCollectivesMove) {
  const ClusterParameters p = Known();
  absl::Status status;
  const ParallelMapping m = Mapping(1, 2);
  const GroupCosts groups(m, p, status);
  const auto rate = [&](CollectiveOp op) {
    return groups.Held(op, {2, 1}, 1e9, SimTime::FromSeconds(0.01)).memory.gbps();
  };
  EXPECT_NEAR(rate(CollectiveOp::kAllGather), 150, 1e-6);
  EXPECT_NEAR(rate(CollectiveOp::kReduceScatter), 150, 1e-6);
  EXPECT_NEAR(rate(CollectiveOp::kAllReduce), 300, 1e-6);
  EXPECT_NEAR(rate(CollectiveOp::kAllToAll), 200, 1e-6);
  EXPECT_NEAR(rate(CollectiveOp::kSendRecv), 400, 1e-6);  // all of it
}

}  // namespace
}  // namespace foretrace
