// What states on the host cost, by hand, and what they free.
#include "simulator/mapping/host_costs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "simulator/mapping/memory_model.h"
#include "tests/support/round_links.h"
#include "tests/unit/mapping/small_model.h"

namespace foretrace {
namespace {

using ::testing::HasSubstr;

// Weights of a layer of the small model, and of its embedding and output layer.
constexpr double kH = 1024, kLayer = 12 * kH * kH + 13 * kH, kRoot = 5122 * kH;

// 10 GB/s to the host for each of eight devices, which share 100 GB/s of its memory, four fifths of
// which loops reach.
ClusterParameters WithHost() {
  ClusterParameters p = FlatCluster();
  p.overlap_slowdown = p.device_spread = 0;
  p.issue = SimTime();
  p.host_link = Bandwidth::GBps(10);
  p.host_memory = Bandwidth::GBps(100);
  return p;
}

ParallelMapping Offloaded(int32_t zero, bool weights) {
  ParallelMapping m;
  m.data = 2;
  m.global_batch = 4;
  m.zero = zero;
  m.offload = true;
  m.offload_weights = weights;
  return m;
}

ParallelMapping Kept(ParallelMapping m) {
  m.offload = m.offload_weights = false;
  return m;
}

PassTimes Times(const ParallelMapping& m) {
  const auto times = TimePasses(SmallModel(), m, WithHost());
  EXPECT_TRUE(times.ok()) << times.status();
  return times.value_or(PassTimes());
}

// Half of each, as two replicas divide them: 2 bytes of each weight before it is gathered, 2 of its
// gradient after it is reduced.
TEST(HostCostsTest, WeightsComeAndGradientsGoWithEachLayer) {
  const ParallelMapping m = Offloaded(3, true);
  const PassTimes with = Times(m), without = Times(Kept(m));
  EXPECT_NEAR((with.forward_gather.dense - without.forward_gather.dense).seconds(), kLayer / 10e9,
              1e-9);
  EXPECT_NEAR((with.gradient.time - without.gradient.time).seconds(), kLayer / 10e9, 1e-9);
  EXPECT_NEAR((with.first_root.gather - without.first_root.gather).seconds(), kRoot / 10e9, 1e-9);
  EXPECT_NEAR((with.first_root.gradient.time - without.first_root.gradient.time).seconds(),
              kRoot / 10e9, 1e-9);
  // Weights that stay on the device are not copied to it.
  EXPECT_EQ(Times(Offloaded(3, false)).forward_gather.dense, without.forward_gather.dense);
}

// 42 bytes of a weight's update at 10 GB/s of the host's memory; under zero 2 the weight goes back
// in 2, under zero 1 its gradient comes in 2 as well.
TEST(HostCostsTest, TheHostUpdates) {
  const double own = (4 * kLayer + kRoot) / 2, update = own * 42 / 10e9, copy = own * 2 / 10e9;
  EXPECT_NEAR(Times(Offloaded(3, true)).optimizer.seconds(), update, 1e-6);
  EXPECT_NEAR(Times(Offloaded(2, false)).optimizer.seconds(), update + copy, 1e-6);
  // The device clears all gradients that it keeps, in 2 bytes at 0.8 of 2,039 GB/s.
  const double clear = 2 * own * 2 / (0.8 * 2039e9);
  EXPECT_NEAR(Times(Offloaded(1, false)).optimizer.seconds(), update + 2 * copy + clear, 1e-5);
}

TEST(HostCostsTest, TheDeviceIsFreed) {
  const ParallelMapping m = Offloaded(3, true);
  const MemoryLedger on_host = MemoryOf(SmallModel(), m), kept = MemoryOf(SmallModel(), Kept(m));
  EXPECT_EQ(on_host.total(), kept.total() - kept.weights - kept.gradients - kept.optimizer);
  const ParallelMapping one = Offloaded(1, false);
  EXPECT_EQ(MemoryOf(SmallModel(), one).total(), MemoryOf(SmallModel(), Kept(one)).total() -
                                                     MemoryOf(SmallModel(), Kept(one)).optimizer);
}

TEST(HostCostsTest, NeedsAHostAndWeightsThatAreDivided) {
  ClusterParameters p = WithHost();
  p.host_memory = Bandwidth();
  const auto unknown = TimePasses(SmallModel(), Offloaded(1, false), p);
  ASSERT_FALSE(unknown.ok());
  EXPECT_THAT(unknown.status().message(), HasSubstr("node.host_memory_GBps"));
  const auto whole = CheckMapping(SmallModel(), Offloaded(2, true), 0);
  ASSERT_FALSE(whole.ok());
  EXPECT_THAT(whole.message(), HasSubstr("offload-weights needs offload, zero3"));
}

TEST(HostCostsTest, AreWordsOfAMapping) {
  const auto m = ParseMapping("dp2 zero3 offload offload-weights", 4, "test");
  ASSERT_TRUE(m.ok()) << m.status();
  EXPECT_EQ(ToString(*m), ToString(Offloaded(3, true)));
  EXPECT_TRUE(m->offload && m->offload_weights);
}

// What leaves the device is on the host: 12 bytes of optimizer state a weight, with zero 2 and 3
// the gradients, with offload-weights the weights.
TEST(HostCostsTest, StatesAreInOneMemoryOrTheOther) {
  const double weights = (4 * kLayer + kRoot) / 2;  // of two replicas
  for (const int32_t zero : {1, 2, 3}) {
    for (const bool too : {false, true}) {
      if (too && zero < 3) continue;
      const ParallelMapping m = Offloaded(zero, too);
      const MemoryLedger device = StageMemoryOf(SmallModel(), m, 0);
      const MemoryLedger host = HostMemoryOf(SmallModel(), m, 0);
      const MemoryLedger all = StageMemoryOf(SmallModel(), Kept(m), 0);
      EXPECT_EQ(device.total() + host.total(), all.total()) << zero;
      EXPECT_NEAR(static_cast<double>(host.optimizer.count()), 12 * weights, 16);
      EXPECT_EQ(host.gradients, zero >= 2 ? all.gradients : Bytes());
      EXPECT_EQ(host.weights, too ? all.weights : Bytes());
      EXPECT_EQ(host.activations, Bytes());
      EXPECT_EQ(HostMemoryOf(SmallModel(), Kept(m), 0).total(), Bytes());
    }
  }
}

}  // namespace
}  // namespace foretrace
