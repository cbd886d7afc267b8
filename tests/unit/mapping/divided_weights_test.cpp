// What dividing weights over replicas costs beyond the exchanges of layers.

#include <gtest/gtest.h>

#include "simulator/mapping/iteration_model.h"
#include "tests/support/round_links.h"
#include "tests/unit/mapping/small_model.h"

namespace foretrace {
namespace {

constexpr double kH = 1024, kH2 = kH * kH;

// 100 GB/s in the node and 2 us a ring step; of the device the memory alone counts.
ClusterParameters MemoryAlone(double gigabytes_per_second) {
  ClusterParameters p;
  p.exchanges = Exchanges();
  p.overlap_slowdown = p.device_spread = 0;
  p.peak = FlopRate::Teraflops(1e9);
  p.peak_memory = Bandwidth::GBps(gigabytes_per_second);
  p.memory_efficiency = 1;
  p.issue = SimTime();
  return p;
}

ParallelMapping Divided(int32_t zero) {
  ParallelMapping m;
  m.data = 2;
  m.global_batch = 4;
  m.zero = zero;
  return m;
}

PassTimes Times(const TransformerConfig& c, const ParallelMapping& m, const ClusterParameters& p) {
  const auto times = TimePasses(c, m, p);
  EXPECT_TRUE(times.ok()) << times.status();
  return times.value_or(PassTimes());
}

// Half of 2 bytes an element over 100 GB/s and a step: the embedding and the output layer of a
// single stage together, of several stages each its own.
double RingPass(double elements) { return 0.5 * 2 * elements / 100e9 * 1e6 + 2; }

TEST(DividedWeightsTest, RootWeightsAreGatheredAndTheirGradientsReduced) {
  const ClusterParameters p = MemoryAlone(1000);
  const PassTimes times = Times(SmallModel(), Divided(3), p);
  EXPECT_NEAR(times.first_root.gather.us(), RingPass(5122 * kH), 1e-3);
  EXPECT_NEAR(times.first_root.gradient.All().us(), RingPass(5122 * kH), 1e-3);
  EXPECT_EQ(times.last_root.gather, SimTime());
  TransformerConfig tied = SmallModel();
  tied.tied = true;
  EXPECT_NEAR(Times(tied, Divided(3), p).first_root.gather.us(), RingPass(3072 * kH), 1e-3);
  ParallelMapping stages = Divided(3);
  stages.pipeline = 2;
  const PassTimes two = Times(SmallModel(), stages, p);
  EXPECT_NEAR(two.first_root.gather.us(), RingPass(3072 * kH), 1e-3);
  EXPECT_NEAR(two.last_root.gradient.All().us(), RingPass(2050 * kH), 1e-3);
}

// With ZeRO 2 weights are whole, with ZeRO 1 gradients are reduced at the end; frozen weights have
// no gradients.
TEST(DividedWeightsTest, OnlyWhatIsDividedIsExchanged) {
  const ClusterParameters p = MemoryAlone(1000);
  const RootExchange two = Times(SmallModel(), Divided(2), p).first_root;
  EXPECT_EQ(two.gather, SimTime());
  EXPECT_NEAR(two.gradient.All().us(), RingPass(5122 * kH), 1e-3);
  EXPECT_EQ(Times(SmallModel(), Divided(1), p).first_root.gradient.All(), SimTime());
  ParallelMapping frozen = Divided(3);
  frozen.lora = 16;
  const RootExchange lora = Times(SmallModel(), frozen, p).first_root;
  EXPECT_NEAR(lora.gather.us(), RingPass(5122 * kH), 1e-3);
  EXPECT_EQ(lora.gradient.All(), SimTime());
}

// Each of two micro-batches waits for both: nothing else differs.
TEST(DividedWeightsTest, RootExchangesAreExposed) {
  const ClusterParameters p = MemoryAlone(1000);
  PassTimes times = Times(SmallModel(), Divided(3), p);
  const auto with = PipelineOf(SmallModel(), Divided(3), times);
  const RootExchange root = times.first_root;
  times.first_root = RootExchange();
  const auto without = PipelineOf(SmallModel(), Divided(3), times);
  ASSERT_TRUE(with.ok() && without.ok());
  EXPECT_EQ(with->stages[0].forward[0] - without->stages[0].forward[0], root.gather);
  EXPECT_EQ(with->stages[0].backward[0] - without->stages[0].backward[0], root.gradient.All());
}

// A gathered weight is read and written in 2 bytes before either pass, a gradient read in 2 and
// written in the 4 that it is reduced in, by a kernel that takes 1.6 times as long as others: 4
// and 4 + 1.6 x 6 bytes over 1 GB/s. Of the second of two
// micro-batches the own half is added to the first's, two values of 4 bytes read and one written: 3
// bytes in their mean. GEMMs, which otherwise write the 4 themselves, write 2.
TEST(DividedWeightsTest, PerParameterShardingCopiesWeightsAndGradients) {
  TransformerConfig c = SmallModel();
  c.dtype = DType::kBFloat16;
  ClusterParameters p = MemoryAlone(1);
  const PassTimes flat = Times(c, Divided(3), p);
  p.per_parameter_sharding = true;
  const PassTimes copied = Times(c, Divided(3), p);
  const double layer = (12 * kH2 + 13 * kH) / 1e9, root = 5122 * kH / 1e9;
  const double backward = 16.6 * layer - 2 * 12 * kH2 / 1e9;
  EXPECT_NEAR((copied.layer_forward - flat.layer_forward).seconds(), 4 * layer, 1e-6);
  EXPECT_NEAR((copied.layer_backward - flat.layer_backward).seconds(), backward, 1e-6);
  EXPECT_NEAR((copied.embedding_forward - flat.embedding_forward).seconds(), 4 * root, 1e-6);
  EXPECT_NEAR((copied.embedding_backward - flat.embedding_backward).seconds(), 12.6 * root, 1e-6);
  // A recomputed layer's weights are gathered once for its backward pass.
  ParallelMapping full = Divided(3);
  full.recompute = Recompute::kFull;
  p.per_parameter_sharding = false;
  const SimTime before = Times(c, full, p).layer_backward;
  p.per_parameter_sharding = true;
  EXPECT_NEAR((Times(c, full, p).layer_backward - before).seconds(), backward, 1e-6);
  // Whole weights are not copied.
  EXPECT_EQ(Times(c, Divided(2), p).layer_forward, flat.layer_forward);
}

// A single replica divides nothing and copies all the same, and casts its 32-bit masters before
// each pass: 6 bytes of a weight more than where replicas cast a part each, 10 forward. What it
// reduces is copied, 8 bytes of a gradient, and added to what it has of earlier micro-batches, 12.
TEST(DividedWeightsTest, PerParameterShardingOfOneReplicaCastsItsMasters) {
  TransformerConfig c = SmallModel();
  c.dtype = DType::kBFloat16;
  ClusterParameters p = MemoryAlone(1);
  ParallelMapping one;
  one.zero = 3;
  const PassTimes whole = Times(c, one, p);
  p.per_parameter_sharding = true;
  const PassTimes copied = Times(c, one, p);
  const double layer = (12 * kH2 + 13 * kH) / 1e9, root = 5122 * kH / 1e9;
  EXPECT_NEAR((copied.layer_forward - whole.layer_forward).seconds(), 10 * layer, 1e-6);
  EXPECT_NEAR((copied.layer_backward - whole.layer_backward).seconds(),
              27.6 * layer - 2 * 12 * kH2 / 1e9, 1e-6);
  EXPECT_NEAR((copied.embedding_forward - whole.embedding_forward).seconds(), 10 * root, 1e-6);
  one.global_batch = 4;
  EXPECT_NEAR((Times(c, one, p).layer_backward - copied.layer_backward).seconds(), 9 * layer, 1e-6);
  one.global_batch = 1;
  // Flat parameters of one replica are not divided (NO_SHARD).
  p.per_parameter_sharding = false;
  p.flat_parameters = true;
  EXPECT_EQ(Times(c, one, p).layer_backward, whole.layer_backward);
}

// Masters that are gathered are cast then, 6 bytes a weight, and gradients are freed, not cleared,
// 4: of half of four layers' and the tables' weights.
TEST(DividedWeightsTest, MastersThatAreGatheredAreNotCastAfterTheUpdate) {
  TransformerConfig c = SmallModel();
  c.dtype = DType::kBFloat16;
  ClusterParameters p = MemoryAlone(1);
  const SimTime flat = Times(c, Divided(3), p).optimizer;
  p.per_parameter_sharding = true;
  const double own = (4.0 * (12 * kH2 + 13 * kH) + 5122 * kH) / 2;
  EXPECT_NEAR((flat - Times(c, Divided(3), p).optimizer).seconds(), 10 * own / 1e9, 1e-6);
  const SimTime states = Times(c, Divided(1), p).optimizer;
  p.per_parameter_sharding = false;
  EXPECT_EQ(Times(c, Divided(1), p).optimizer, states);
}

// Bytes over 100 GB/s, in units of T h = h^2. Scales of earlier steps: the four inputs, 7 T h, are
// read in 2 bytes and written in 1 twice; so are backward the outputs' gradients, 9 T h. Scales of
// the tensors themselves: 2 more for each; weights, 12 h^2, and inputs are read twice and written
// once in either pass: forward 7 x 5 + 12 x 5 for 7 x 4, backward 7 x 5 + 12 x 5 + 9 x 6 for 9 x 4.
TEST(DividedWeightsTest, DynamicScalingReadsOperandsTwice) {
  ParallelMapping m;
  m.fp8 = true;
  ClusterParameters p = MemoryAlone(100);
  const PassTimes delayed = Times(SmallModel(), m, p);
  p.dynamic_scaling = true;
  const PassTimes dynamic = Times(SmallModel(), m, p);
  const double unit = kH2 / 100e9 * 1e6;
  EXPECT_NEAR((dynamic.layer_forward - delayed.layer_forward).us(), 67 * unit, 0.3 * unit);
  EXPECT_NEAR((dynamic.layer_backward - delayed.layer_backward).us(), 113 * unit, 0.3 * unit);
  // Weights that are gathered in 8 bits are not cast where they are used, and half the bytes.
  p.eight_bit_gathers = true;
  const PassTimes cast = Times(SmallModel(), m, p);
  EXPECT_NEAR((cast.layer_forward - delayed.layer_forward).us(), 7 * unit, 0.3 * unit);
  EXPECT_NEAR((cast.layer_backward - delayed.layer_backward).us(), 53 * unit, 0.3 * unit);
  ParallelMapping divided = Divided(3);
  divided.fp8 = true;
  const Bytes eight = Times(SmallModel(), divided, p).weight_bytes;
  divided.fp8 = false;
  EXPECT_EQ(Times(SmallModel(), divided, p).weight_bytes.count(), 2 * eight.count());
}

}  // namespace
}  // namespace foretrace
