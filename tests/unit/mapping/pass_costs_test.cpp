#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "simulator/mapping/device_spread.h"
#include "simulator/mapping/iteration_model.h"
#include "simulator/mapping/measured_mappings.h"
#include "simulator/mapping/memory_model.h"
#include "tests/support/round_links.h"
#include "tests/unit/mapping/small_model.h"

namespace foretrace {
namespace {

// hidden 1024, 16 heads, sequence 1024: a layer has 12 h^2 weights, 4 h^2 of them attention.
TransformerConfig Model(int64_t experts = 0) {
  TransformerConfig c = SmallModel(true);
  c.experts = experts;
  c.top_k = experts > 0 ? 2 : 0;
  return c;
}

// 100 GB/s in the node, 10 GB/s a NIC, 2 and 10 us a ring step.
ClusterParameters Cluster() {
  ClusterParameters p;
  p.exchanges = Exchanges();
  p.overlap_slowdown = p.device_spread = 0;
  return p;
}

// 100 TFLOP/s; memory and launches take no time.
ClusterParameters ProductsAlone() {
  ClusterParameters p = Cluster();
  p.peak = FlopRate::Teraflops(100);
  p.matrix_efficiency = 1;
  p.peak_memory = Bandwidth::GBps(1e9);
  p.issue = SimTime();
  return p;
}

ParallelMapping Mapping(int32_t tensor, int32_t data) {
  ParallelMapping m;
  m.tensor = tensor;
  m.data = data;
  m.global_batch = data;
  return m;
}

PassTimes Times(const TransformerConfig& c, const ParallelMapping& m,
                const ClusterParameters& p = Cluster()) {
  const auto times = TimePasses(c, m, p);
  EXPECT_TRUE(times.ok()) << times.status();
  return times.value_or(PassTimes());
}

constexpr double kH2 = 1024.0 * 1024.0;

// Products of 100 TFLOP/s alone, of which 40 last at the power limit: everything takes 2.5 times as
// long; a limit above the rate changes nothing.
TEST(PassCostsTest, PowerLimitBoundsProducts) {
  TransformerConfig c = Model();
  c.dtype = DType::kBFloat16;
  const PassTimes free = Times(c, Mapping(1, 1), ProductsAlone());
  ClusterParameters p = ProductsAlone();
  p.sustained = FlopRate::Teraflops(200);
  EXPECT_EQ(Times(c, Mapping(1, 1), p).layer_forward, free.layer_forward);
  p.sustained = FlopRate::Teraflops(40);
  const SimTime limited = Times(c, Mapping(1, 1), p).head_forward;
  EXPECT_NEAR(limited.seconds() / free.head_forward.seconds(), 2.5, 1e-3);
}

// A layer takes 5 us more for each kernel between which the stream idles as long.
TEST(PassCostsTest, StreamsIdleBetweenKernels) {
  ClusterParameters p = ProductsAlone();
  const SimTime without = Times(Model(), Mapping(1, 1), p).head_forward;
  p.kernel_gap = SimTime::FromUs(5);
  const SimTime with = Times(Model(), Mapping(1, 1), p).head_forward;
  // The final norm, the output layer's product and the loss's kernels.
  const double kernels = (with - without).us() / 5;
  EXPECT_NEAR(kernels, std::round(kernels), 1e-6);
  EXPECT_GE(kernels, 3);
  EXPECT_LE(kernels, 6);
}

// Under sequence parallelism a gathering and a scattering, each of which waits for kernels and is
// waited for; otherwise one all-reduce.
TEST(PassCostsTest, CollectivesWaitAcrossStreams) {
  ClusterParameters p = ProductsAlone();
  ParallelMapping m = Mapping(2, 1);
  const SimTime reduced = Times(Model(), m, p).tensor.time;
  p.stream_wait = SimTime::FromUs(3);
  EXPECT_EQ(Times(Model(), m, p).tensor.time - reduced, SimTime::FromUs(6));
  m.sequence_parallel = true;
  const SimTime with = Times(Model(), m, p).tensor.time;
  p.stream_wait = SimTime();
  EXPECT_EQ(with - Times(Model(), m, p).tensor.time, SimTime::FromUs(12));
}

// Whole attention is 4 s^2 h FLOP, half of them masked; pieces of a quarter of the sequence need a
// quarter of that, a window of as many keys before every query half.
TEST(PassCostsTest, WindowsOfAttention) {
  TransformerConfig c = Model();
  c.fused_attention = true;
  const double whole_s = 2 * 1024.0 * kH2 / 1e14;
  const auto forward = [&] {
    return Times(c, Mapping(1, 1), ProductsAlone()).layer_forward.seconds();
  };
  const double whole = forward();
  c.window = 256;
  c.window_pieces = true;
  EXPECT_NEAR(whole - forward(), 0.75 * whole_s, 1e-9);
  c.global_every = 2;  // every second layer attends to all
  EXPECT_NEAR(whole - forward(), 0.375 * whole_s, 1e-9);
  c.global_every = 0;
  c.window_pieces = false;
  EXPECT_NEAR(whole - forward(), 0.5 * whole_s, 1e-9);
  c.window = 1024;
  EXPECT_EQ(forward(), whole);
}

// Stages that wait for their messages have them in their passes: what each sends on, forward all
// but the last, backward all but the first.
TEST(PassCostsTest, BlockingTransfersHoldTheirStages) {
  ParallelMapping m = Mapping(1, 1);
  m.pipeline = 2;
  m.global_batch = 4;
  ClusterParameters p = ProductsAlone();
  const PassTimes free = Times(Model(), m, p);
  p.blocking_transfers = true;
  const PassTimes held = Times(Model(), m, p);
  // 1,024 tokens of 1,024 activations of 2 bytes over 10 GB/s.
  EXPECT_NEAR(held.transfer.seconds(), 2 * kH2 / 10e9, 1e-9);
  const auto before = PipelineOf(Model(), m, free), after = PipelineOf(Model(), m, held);
  ASSERT_TRUE(before.ok() && after.ok());
  const auto more = [&](size_t stage, bool forward) {
    const TimedStage &a = after->stages[stage], &b = before->stages[stage];
    return forward ? a.forward[0] - b.forward[0] : a.backward[0] - b.backward[0];
  };
  EXPECT_EQ(more(0, true), held.transfer);
  EXPECT_EQ(more(0, false), SimTime());
  EXPECT_EQ(more(1, true), SimTime());
  EXPECT_EQ(more(1, false), held.transfer);
  EXPECT_EQ(before->edges[0].forward_transfer, held.transfer);
  EXPECT_EQ(after->edges[0].forward_transfer, SimTime());
}

// A kernel of its own reads 2 bytes of each new gradient and 4 of its buffer, and writes 4: 10 of
// each of 12 h^2 weights over 1 GB/s. Biases are 1e-3 of them. Where gradients have no buffer and
// there is one micro-batch, nothing is added.
TEST(PassCostsTest, AccumulationByAKernelOfItsOwn) {
  TransformerConfig c = Model();
  c.dtype = DType::kBFloat16;
  ClusterParameters p = Cluster();
  p.peak = FlopRate::Teraflops(1e6);
  p.peak_memory = Bandwidth::GBps(1);
  p.memory_efficiency = 1;
  p.fused_accumulation = false;
  ParallelMapping m = Mapping(1, 1);
  const SimTime added = Times(c, m, p).layer_weight;
  m.gradient_bytes = 2;
  const SimTime alone = Times(c, m, p).layer_weight;
  EXPECT_NEAR((added - alone).seconds(), 10 * 12 * kH2 / 1e9, 2e-3 * 10 * 12 * kH2 / 1e9);
}

// Gathers and reductions take less than the passes that they run behind: a tenth of them is added
// to the forward pass (gathers alone) and to the backward pass (both).
TEST(PassCostsTest, KernelsBesideGathersTakeLonger) {
  ParallelMapping m = Mapping(1, 2);
  m.zero = 3;
  m.overlap_gradients = true;
  ClusterParameters p = ProductsAlone();
  const PassTimes alone = Times(Model(), m, p);
  p.overlap_slowdown = 0.1;
  const PassTimes beside = Times(Model(), m, p);
  EXPECT_NEAR((beside.layer_forward - alone.layer_forward).seconds(),
              0.1 * alone.Gather().seconds(), 1e-9);
  EXPECT_NEAR((beside.layer_backward - alone.layer_backward).seconds(),
              0.1 * (alone.Gather() + alone.reduce_behind).seconds(), 1e-9);
}

// The larger of two normal variables is 1 / sqrt(pi) above their mean, of three 1.5 / sqrt(pi); of
// 2,048 3.44 (tables of normal order statistics give 3.2414 for 1,000).
TEST(DeviceSpreadTest, ExpectedMaximumOfNormals) {
  EXPECT_EQ(ExpectedMaximum(1), 0);
  EXPECT_NEAR(ExpectedMaximum(2), 0.5641896, 1e-7);
  EXPECT_NEAR(ExpectedMaximum(3), 0.8462844, 1e-7);
  EXPECT_NEAR(ExpectedMaximum(1000), 3.2414, 1e-4);
}

// Products of two devices that differ by 10 % take 5.64 % longer than the median's, where a power
// limit is what they run at.
TEST(DeviceSpreadTest, TheSlowestDeviceCounts) {
  ClusterParameters p = ProductsAlone();
  p.device_spread = 0.1;
  EXPECT_EQ(Times(Model(), Mapping(1, 2), p).head_forward,
            Times(Model(), Mapping(1, 1), p).head_forward);
  p.device_spread = 0;
  p.sustained = FlopRate::Teraflops(1000);
  const SimTime one = Times(Model(), Mapping(1, 2), p).head_forward;
  p.device_spread = 0.1;
  EXPECT_NEAR(Times(Model(), Mapping(1, 2), p).head_forward.seconds() / one.seconds(), 1.0564190,
              1e-4);
  EXPECT_EQ(Times(Model(), Mapping(1, 1), p).head_forward, one);
}

// Without prefetching a layer waits for its weights forward, and backward again; once more where it
// is recomputed.
TEST(PassCostsTest, LayersWaitForTheirGathers) {
  ParallelMapping m = Mapping(1, 2);
  m.zero = 3;
  m.recompute = Recompute::kFull;
  ClusterParameters p = ProductsAlone();
  const PassTimes ahead = Times(Model(), m, p);
  p.gathers_ahead = false;
  const PassTimes waits = Times(Model(), m, p);
  EXPECT_EQ(waits.Gather(), SimTime());
  EXPECT_EQ(waits.layer_forward, ahead.layer_forward + ahead.Gather());
  EXPECT_EQ(waits.layer_backward, ahead.layer_backward + ahead.Gather() + ahead.Gather());
}

// A quarter of the layers dense: a quarter of their times and a quarter of their memory. The
// further token takes a mixture's layer, the output layer and a product of 2 h by h again.
TEST(PassCostsTest, LayersOfTwoKindsAndFurtherTokens) {
  TransformerConfig c = Model(4);
  c.ffn = 1024;
  c.dense_first = 1;
  c.dense_ffn = 8192;
  const PassTimes both = Times(c, Mapping(1, 1), ProductsAlone());
  const PassTimes dense = Times(WithLayersOf(c, true), Mapping(1, 1), ProductsAlone());
  const PassTimes mixture = Times(WithLayersOf(c, false), Mapping(1, 1), ProductsAlone());
  EXPECT_NEAR(both.layer_forward.seconds(),
              0.25 * dense.layer_forward.seconds() + 0.75 * mixture.layer_forward.seconds(), 1e-9);
  EXPECT_NEAR(LayerStash(c, Mapping(1, 1), Recompute::kNone),
              0.25 * LayerStash(WithLayersOf(c, true), Mapping(1, 1), Recompute::kNone) +
                  0.75 * LayerStash(WithLayersOf(c, false), Mapping(1, 1), Recompute::kNone),
              1);
  c.further_tokens = 1;
  const PassTimes further = Times(c, Mapping(1, 1), ProductsAlone());
  // 2 x 1,024 tokens x 2 h^2 FLOP at 100 TFLOP/s.
  const double join = 2 * 1024 * 2 * kH2 / 100e12;
  EXPECT_NEAR(further.head_forward.seconds(),
              2 * both.head_forward.seconds() + mixture.layer_forward.seconds() + join, 1e-8);
}

// Latent attention of 16 heads of 64 + 64 and values of 64, latents of 256 and 512: of each token
// h x 512 + 512 x 16 x 128 (queries), h x (256 + 64) + 256 x 16 x (64 + 64) (keys and values),
// 16 x 64 x h weights, 2 FLOP each; scores of 128 and values of 64 for the half of 1,024 x 1,024
// that the mask leaves.
TEST(PassCostsTest, LatentAttention) {
  TransformerConfig c = Model();
  c.family = TransformerFamily::kLlama;
  c.fused_attention = true;
  c.ffn = 1024;
  const PassTimes plain = Times(c, Mapping(1, 1), ProductsAlone());
  c.head_size = 128;
  c.rotary_size = c.value_size = 64;
  c.latent = 256;
  c.query_latent = 512;
  const PassTimes latent = Times(c, Mapping(1, 1), ProductsAlone());
  const double h = 1024, s = 1024;
  const double weights = h * 512 + 512 * 16 * 128 + h * 320 + 256 * 16 * 128 + 16 * 64 * h;
  const double scores = 2 * 16 * (128 + 64) * s * s / 2;
  const double before = 4 * h * h, scores_before = 4 * h * s * s / 2;
  const double more = 2 * s * (weights - before) + scores - scores_before;
  EXPECT_NEAR((latent.layer_forward - plain.layer_forward).seconds(), more / 100e12, 2e-7);
}

// Two parts of 512 tokens. Own scores under the mask and half of the other part's are as many as
// with gathered keys, so that on links that take no time only the gathering is saved. On 1 GB/s the
// other part's 512 keys and values of 1,024 x 2 bytes take 2,097.15 us, of which the step before
// hides its scores' 4 x 512 x 256 x 1,024 FLOP at 100 TFLOP/s, 5.37 us.
TEST(PassCostsTest, RingHidesWhatItsStepsCover) {
  TransformerConfig c = Model();
  c.fused_attention = true;
  ParallelMapping m = Mapping(1, 1);
  m.context = 2;
  ClusterParameters p = ProductsAlone();
  const PassTimes gathered = Times(c, m, p);
  m.ring = true;
  p.exchanges = Exchanges({.gather_gbps = 1e6, .inside_us = 0});
  const PassTimes fast = Times(c, m, p);
  EXPECT_NEAR(fast.layer_forward.seconds(),
              (gathered.layer_forward - gathered.context.Sum(true)).seconds(), 1e-7);
  p.exchanges = Exchanges({.gather_gbps = 1, .inside_us = 0});
  const SimTime slow = Times(c, m, p).layer_forward;
  EXPECT_NEAR((slow - fast.layer_forward).seconds(), 2097.15e-6 - 5.37e-6, 1e-7);
}

// A forward pass of Llama's kind whose memory alone takes time, kernels one by one. Of each element
// of a norm the steps move 6, 8, 4, 8 and 6 bytes (both casts, square, mean, scaling), so 32 a norm
// and 64 of both; rotary embedding 6, 6 and 4 of each of the 2 h elements of queries and keys, 32;
// the gated activation 2 and 2 of each of 4 h, 16: 112 bytes an element of h x tokens. The means
// write 4 bytes a row, which 1e-3 covers.
TEST(PassCostsTest, KernelsOneByOne) {
  TransformerConfig c = Model();
  c.family = TransformerFamily::kLlama;
  c.dtype = DType::kBFloat16;
  c.fused_attention = true;
  c.ffn = 4 * c.hidden;
  ClusterParameters p = Cluster();
  p.peak = FlopRate::Teraflops(1e6);
  p.peak_memory = Bandwidth::GBps(1);
  p.memory_efficiency = 1;
  p.issue = SimTime();
  const SimTime fused = Times(c, Mapping(1, 1), p).layer_forward;
  p.fused_pointwise = false;
  const double extra = (Times(c, Mapping(1, 1), p).layer_forward - fused).seconds();
  EXPECT_NEAR(extra / (112 * 1024.0 * 1024.0 / 1e9), 1, 1e-3);
}

// A switch that sums doubles an all-reduce's rate, not that of a gather and a scatter, which
// sequence parallelism has instead: three quarters of 2 MiB each at 100 GB/s, in three steps.
TEST(PassCostsTest, SequenceParallelismGathersAndScatters) {
  ClusterParameters p = Cluster();
  p.exchanges = Exchanges({.node_gbps = 200});
  ParallelMapping m = Mapping(4, 1);
  EXPECT_NEAR(Times(Model(), m, p).tensor.time.us(), 1.5 * 2 * kH2 / 200e9 * 1e6 + 20, 1e-3);
  m.sequence_parallel = true;
  EXPECT_NEAR(Times(Model(), m, p).tensor.time.us(), 2 * (0.75 * 2 * kH2 / 100e9 * 1e6 + 3 * 2),
              1e-3);
}

// Products of T = 1,024 tokens over 4 ranks take 2 T h^2 / 4 times 3 (qkv), 1, 4 and 4 at 100
// TFLOP/s, of which a quarter runs beside no transfer; an exchange half of a gathering and
// scattering. Not even the longest product hides one wholly. Backward all are waited for as before.
TEST(PassCostsTest, ExchangesPartByPart) {
  const ClusterParameters p = ProductsAlone();
  ParallelMapping m = Mapping(4, 1);
  m.sequence_parallel = true;
  const PassTimes waited = Times(Model(), m, p);
  m.async_tensor = true;
  const PassTimes beside = Times(Model(), m, p);
  const double exchange = waited.tensor.time.us() / 2;
  EXPECT_EQ(waited.tensor.forward, 2);
  EXPECT_EQ(beside.tensor.forward, 0);
  double longer = 0;
  for (const double width : {3, 1, 4, 4}) {
    const double product = 2 * 1024 * kH2 * width / 4 / 100e12 * 1e6;
    longer += std::max(product, exchange + product / 4) - product;
  }
  EXPECT_NEAR(beside.layer_forward.us(),
              waited.layer_forward.us() - 2 * waited.tensor.time.us() + longer, 0.1);
  EXPECT_EQ(beside.layer_backward, waited.layer_backward);
  // A recomputed layer waits for its exchanges.
  m.recompute = Recompute::kFull;
  ParallelMapping plain = m;
  plain.async_tensor = false;
  EXPECT_NEAR(Times(Model(), m, p).layer_backward.us(),
              Times(Model(), plain, p).layer_backward.us(), 1e-2);
}

// Userbuffers split what is scattered into four parts, of which one runs beside no transfer, and
// keep 22 of 132 multiprocessors; backward the two gathered gradients go beside products of their
// own, which are as large as the forward ones.
TEST(PassCostsTest, ExchangesByUserbuffers) {
  ClusterParameters p = ProductsAlone();
  p.multiprocessors = 132;
  ParallelMapping m = Mapping(4, 1);
  m.sequence_parallel = true;
  const PassTimes waited = Times(Model(), m, p);
  m.chunked_tensor = true;
  const PassTimes beside = Times(Model(), m, p);
  const double exchange = waited.tensor.time.us() / 2;
  EXPECT_EQ(beside.tensor.forward, 0);
  EXPECT_EQ(beside.tensor.backward, waited.tensor.backward - 1);
  const auto product = [](double width) { return 2 * 1024 * kH2 * width / 4 / 100e12 * 1e6; };
  double forward = 0, backward = 0;
  for (const double width : {3, 4}) {
    forward += std::max(product(width), exchange + product(width) / 4) - product(width);
  }
  for (const double width : {1, 4}) {
    const double slow = product(width) * 132 / 110;
    forward += std::max(slow, exchange + slow / 4) - product(width);
    backward += std::max(product(width), exchange + product(width) / 4) - product(width);
  }
  EXPECT_NEAR(beside.layer_forward.us(),
              waited.layer_forward.us() - 2 * waited.tensor.time.us() + forward, 0.1);
  EXPECT_NEAR(beside.layer_backward.us(),
              waited.layer_backward.us() - waited.tensor.time.us() + backward, 0.1);
}

// Eight experts on four devices: two visits of 1,024 tokens of 1,024 activations of 2 bytes are
// copied, read and written, before and after the experts, backward likewise; with one expert a
// device nothing is to be sorted.
TEST(PassCostsTest, VisitsAreSortedByExpert) {
  ClusterParameters p = ProductsAlone();
  p.peak_memory = Bandwidth::GBps(1000);
  p.memory_efficiency = 1;
  ParallelMapping m = Mapping(1, 8);
  const auto local = [&](int32_t groups) {
    m.expert = groups;
    const PassTimes t = Times(Model(8), m, p);
    return t.layer_forward - t.Exchanges(true);
  };
  const double copies = 2 * 2.0 * (2 * 1024 * 1024) * 2 / 1000e9;
  EXPECT_NEAR((local(4) - local(8)).seconds(), copies, 2e-7);
}

// Products of layers in 8 bits: backward, both of them, half again as long; the output layer's in
// 16 bits are as before.
TEST(PassCostsTest, PartialSumsInThirtyTwoBits) {
  TransformerConfig c = Model();
  c.dtype = DType::kBFloat16;
  c.fused_attention = true;
  ParallelMapping m = Mapping(1, 1);
  m.fp8 = true;
  m.gradient_bytes = 2;
  ClusterParameters p = ProductsAlone();
  const PassTimes fast = Times(c, m, p);
  p.split_accumulation = 1.5;
  const PassTimes promoted = Times(c, m, p);
  EXPECT_EQ(promoted.layer_forward, fast.layer_forward);
  EXPECT_EQ(promoted.head_backward, fast.head_backward);
  const double products = 2 * 2 * 1024 * 12 * kH2 * p.eight_bit_share / 100e12;
  EXPECT_NEAR((promoted.layer_backward - fast.layer_backward).seconds(), 0.5 * products, 1e-7);
}

// Scales are reduced among two nodes of eight devices: 14 steps of 2 us and one of 10, twice.
TEST(PassCostsTest, ScalesAreReducedAfterEveryPass) {
  ParallelMapping m = Mapping(4, 4);
  m.global_batch = 8;
  ClusterParameters p = ProductsAlone();
  p.reduces_scales = true;
  EXPECT_EQ(Times(Model(), m, p).scale_reduction, SimTime());
  m.fp8 = true;
  const PassTimes times = Times(Model(), m, p);
  EXPECT_NEAR(times.scale_reduction.us(), 2 * (14 * 2 + 10), 0.01);
  const auto with = EstimateIteration(Model(), m, p);
  p.reduces_scales = false;
  const auto without = EstimateIteration(Model(), m, p);
  ASSERT_TRUE(with.ok() && without.ok());
  // Two micro-batches, forward and backward.
  EXPECT_NEAR((with->time - without->time).us(), 4 * 76, 0.04);
}

// Kernels that hide a reduction take longer by a share of the time that both run: of a hidden
// reduction's time, or of its cover's where that is shorter.
TEST(PassCostsTest, KernelsBesideHiddenReductionsAreSlower) {
  ClusterParameters p = ProductsAlone();
  const ParallelMapping m = Mapping(4, 1);
  const PassTimes alone = Times(Model(), m, p);
  ASSERT_FALSE(alone.tensor_hidden.cover.empty());
  double beside = 0;
  for (const SimTime cover : alone.tensor_hidden.cover) {
    beside += std::min(cover, alone.tensor_hidden.time).seconds();
  }
  p.overlap_slowdown = 0.5;
  const PassTimes slowed = Times(Model(), m, p);
  EXPECT_NEAR((slowed.layer_backward - alone.layer_backward).seconds(), 0.5 * beside, 1e-9);
  EXPECT_EQ(slowed.layer_forward, alone.layer_forward);
}

// Chunks that wait for their messages: all but the last of the last stage send forward, all but the
// first of the first backward.
TEST(PassCostsTest, BlockingChunksHoldTheirStages) {
  ParallelMapping m = Mapping(1, 1);
  m.pipeline = 2;
  m.chunks = 2;
  m.global_batch = 4;
  ClusterParameters p = ProductsAlone();
  const auto free = PipelineOf(Model(), m, Times(Model(), m, p));
  p.blocking_chunks = true;
  const PassTimes times = Times(Model(), m, p);
  const auto held = PipelineOf(Model(), m, times);
  ASSERT_TRUE(free.ok() && held.ok());
  for (size_t stage = 0; stage < 2; ++stage) {
    for (size_t chunk = 0; chunk < 2; ++chunk) {
      const TimedStage &a = held->stages[stage], &b = free->stages[stage];
      const SimTime sent = stage == 1 && chunk == 1 ? SimTime() : times.transfer;
      const SimTime returned = stage == 0 && chunk == 0 ? SimTime() : times.transfer;
      EXPECT_EQ(a.forward[chunk] - b.forward[chunk], sent);
      EXPECT_EQ(a.backward[chunk] - b.backward[chunk], returned);
    }
  }
}

// 16 replicas in two nodes of 8. Each node has the weights whole: a gathering of L bytes stays
// inside, 7/8 L / 100 GB/s and 7 steps. A gradient is scattered likewise, then each eighth of it
// reduced with the other node's by one NIC: twice half of L/8 / 10 GB/s and a step outside.
TEST(PassCostsTest, WeightsDividedWithinNodes) {
  ParallelMapping m = Mapping(1, 16);
  m.zero = 3;
  const PassTimes all = Times(Model(), m);
  const MemoryLedger of_all = MemoryOf(Model(), m);
  m.hybrid = 8;
  const PassTimes hybrid = Times(Model(), m);
  const double weights = static_cast<double>(hybrid.weight_bytes.count());
  EXPECT_EQ(hybrid.weight_bytes, all.weight_bytes);
  EXPECT_NEAR(hybrid.weight_gather.us(), 7.0 / 8 * weights / 100e9 * 1e6 + 7 * 2, 1e-3);
  const double gradients = static_cast<double>(hybrid.gradient.bytes.count());
  EXPECT_NEAR(hybrid.gradient.time.us(),
              7.0 / 8 * gradients / 100e9 * 1e6 + 7 * 2 + gradients / 8 / 10e9 * 1e6 + 2 * 10,
              1e-3);
  const MemoryLedger use = MemoryOf(Model(), m);
  EXPECT_NEAR(static_cast<double>(use.weights.count()),
              2.0 * static_cast<double>(of_all.weights.count()), 2);
  EXPECT_NEAR(static_cast<double>(use.optimizer.count()),
              2.0 * static_cast<double>(of_all.optimizer.count()), 2);
}

// Placeholders of a layer's 12 h^2 weights, 9 h biases and 4 h of norms, in two bytes, of all
// layers one; of 4 experts on 2 groups of devices one of the two that each has. Frozen weights have
// none.
TEST(PassCostsTest, PlaceholdersOfGradients) {
  const auto more = [](TransformerConfig c, const ParallelMapping& m) {
    const Bytes without = MemoryOf(c, m).gradients;
    c.gradient_placeholders = true;
    return MemoryOf(c, m).gradients - without;
  };
  ParallelMapping m = Mapping(1, 2);
  EXPECT_EQ(more(Model(), m), Bytes(2 * static_cast<int64_t>(12 * kH2 + 13 * 1024)));
  m.lora = 16;
  EXPECT_EQ(more(Model(), m), Bytes());
  m.lora = 0;
  m.expert = 2;
  ParallelMapping all = m;
  all.expert = 1;
  EXPECT_EQ(more(Model(4), m), more(Model(4), all));
}

// Of the logits' elements: 4 bytes kept and 2 + 4 beside them; two gradients of 4 beside; the
// logits and their gradient in two bytes.
TEST(PassCostsTest, LogitsByTheLossesForm) {
  TransformerConfig c = Model();
  const ParallelMapping m = Mapping(1, 1);
  const double logits = 1024.0 * 2048;
  const std::pair<LossForm, std::pair<double, double>> forms[] = {
      {LossForm::kInPlace, {4, 6}}, {LossForm::kStepwise, {4, 8}}, {LossForm::kFused, {2, 2}}};
  for (const auto& [form, bytes] : forms) {
    c.loss = form;
    const LogitMemory memory = LogitMemoryOf(c, m);
    EXPECT_EQ(memory.kept, bytes.first * logits);
    EXPECT_EQ(memory.passing, bytes.second * logits);
  }
}

// Links of a newer platform than an A100's: runs measured at 40 GB/s a NIC where the data
// sheet says 48 are found to have 40, and no fit leaves what the platform can be.
TEST(FitClusterTest, LinksAreBoundedByThePlatformsOwn) {
  ClusterParameters start = Cluster(), truth = start;
  start.exchanges = Exchanges({.node_gbps = 422, .gather_gbps = 422, .nic_gbps = 48});
  const auto fitted = [&](double nic) {
    truth.exchanges = Exchanges({.node_gbps = 422, .gather_gbps = 422, .nic_gbps = nic});
    MeasuredMapping row;
    row.model = Model();
    row.mapping = Mapping(8, 4);
    row.measured = EstimateIteration(row.model, row.mapping, truth)->time;
    const auto found = FitCluster({row}, start, {ClusterParameter::kNicShare});
    return found.ok() ? 48 * found->nic_share : 0;
  };
  EXPECT_NEAR(fitted(40), 40, 1);
  EXPECT_NEAR(fitted(10), 48 / 1.4, 0.01);
}

// The vocabulary is divided over 4 ranks. All-reduces of a micro-batch's 2 MiB and of 4 KiB (one
// number of 4 bytes a token) take 1.5 times their bytes over 100 GB/s and 20 us: the embedding's
// result forward, the output layer's input gradient backward where nothing hides it, and three of
// the small ones in the loss. Under sequence parallelism the embedding and the output layer's input
// take an all-gather or a reduce-scatter forward, 0.75 times the bytes and three steps of 2 us, the
// embedding's gradient one backward.
TEST(PassCostsTest, ExchangesOutsideOfLayers) {
  const ClusterParameters p = ProductsAlone();
  ParallelMapping m = Mapping(4, 1);
  m.overlap_tensor = false;
  const PassTimes one = Times(Model(), Mapping(1, 1), p), four = Times(Model(), m, p);
  const double large = 1.5 * 2 * 1024 * 1024 / 100e9 * 1e6 + 20;
  const double small = 1.5 * 4 * 1024 / 100e9 * 1e6 + 20;
  EXPECT_NEAR(four.embedding_forward.us(), large, 0.1);
  EXPECT_NEAR(four.embedding_backward.us(), 0, 0.1);
  EXPECT_NEAR(four.head_forward.us(), one.head_forward.us() / 4 + 3 * small, 0.1);
  EXPECT_NEAR(four.head_backward.us(), one.head_backward.us() / 4 + large, 0.1);
  m.overlap_tensor = true;
  EXPECT_NEAR(Times(Model(), m, p).head_backward.us(), one.head_backward.us() / 4, 0.1);
  m.sequence_parallel = true;
  const PassTimes divided = Times(Model(), m, p);
  const double half = 0.75 * 2 * 1024 * 1024 / 100e9 * 1e6 + 3 * 2;
  EXPECT_NEAR(divided.embedding_forward.us(), half, 0.1);
  EXPECT_NEAR(divided.embedding_backward.us(), half, 0.1);
  EXPECT_NEAR(divided.head_forward.us(), one.head_forward.us() / 4 + 3 * small + half, 0.1);
}

// Experts of a 2-way tensor-parallel job, divided or whole: a device's share of the FLOP and its
// weights are the same with half or a whole expert's width and twice as many devices to hold them.
// Whole experts need no reduction of their visits: 1 exchange a forward pass instead of 1 + top_k.
TEST(PassCostsTest, WholeExperts) {
  TransformerConfig c = Model(4);
  c.biases = false;
  ParallelMapping m = Mapping(2, 2);
  m.sequence_parallel = true;
  m.expert = 2;
  ParallelMapping whole = m;
  whole.expert_tensor = 1;
  whole.expert = 4;
  const PassTimes divided = Times(c, m, ProductsAlone()), own = Times(c, whole, ProductsAlone());
  EXPECT_EQ(divided.tensor.forward, 3);
  EXPECT_EQ(own.tensor.forward, 1);
  const SimTime kernels = divided.layer_forward - divided.Exchanges(true);
  EXPECT_NEAR((own.layer_forward - own.Exchanges(true)).seconds() / kernels.seconds(), 1, 1e-6);
  EXPECT_EQ(divided.expert_gradient_bytes, own.expert_gradient_bytes);
  EXPECT_EQ(MemoryOf(c, m).weights, MemoryOf(c, whole).weights);
}

TEST(PassCostsTest, RingOverReplicasIsCappedByTheLinksOfANode) {
  // 16 replicas on two nodes of 8: eight NICs carry 80 GB/s, less than the 100 of the links.
  // A ring pass of L bytes takes 15/16 L / 80 GB/s, 14 steps inside and one outside. ZeRO 3 gathers
  // a layer's weights of two bytes: 12 h^2 and 7 h of biases, which tensor parallelism divides, 2 h
  // of biases and 4 h of norms, which it does not.
  ParallelMapping m = Mapping(1, 16);
  m.zero = 3;
  const double h = 1024, divided = 2 * (12 * kH2 + 7 * h), whole = 2 * 6 * h;
  const double bytes = divided + whole;
  EXPECT_NEAR(Times(Model(), m).weight_gather.us(),
              15.0 / 16 * bytes / 80e9 * 1e6 + 14 * 2 + 1 * 10, 1e-3);
  // With 50 GB/s a NIC the links are what limits.
  ClusterParameters p = Cluster();
  p.exchanges = Exchanges({.nic_gbps = 50});
  EXPECT_NEAR(Times(Model(), m, p).weight_gather.us(),
              15.0 / 16 * bytes / 100e9 * 1e6 + 14 * 2 + 1 * 10, 1e-3);
  // With 8-way tensor parallelism each of 8 rings has one NIC and one member a node.
  m.tensor = 8;
  EXPECT_NEAR(Times(Model(), m, p).weight_gather.us(),
              15.0 / 16 * (divided / 8 + whole) / 50e9 * 1e6 + 15 * 10, 1e-3);
  // Within one node: links, steps inside.
  m = Mapping(2, 4);
  m.zero = 2;
  EXPECT_NEAR(Times(Model(), m).gradient.time.us(),
              3.0 / 4 * (divided / 2 + whole) / 100e9 * 1e6 + 3 * 2, 1e-3);
}

TEST(PassCostsTest, ZeroCoversExperts) {
  // 8 experts of 8 h^2 weights and 5 h biases, two to each of 4 expert-parallel ranks; 16 replicas,
  // so 4 hold the same experts, 4 apart: two in each of two nodes. ZeRO 3 gathers 16 h^2 + 10 h of
  // two bytes over them at 2 x 10 GB/s, in 2 steps inside and one outside.
  ParallelMapping m = Mapping(1, 16);
  m.expert = 4;
  m.zero = 3;
  const PassTimes times = Times(Model(8), m);
  const double expert = (16 * kH2 + 10 * 1024) * 2,
               pass = 3.0 / 4 * expert / 20e9 * 1e6 + 2 * 2 + 10;
  EXPECT_EQ(times.expert_weight_bytes, Bytes(static_cast<int64_t>(expert)));
  EXPECT_NEAR(times.expert_weight_gather.us(), pass, 1e-3);
  EXPECT_NEAR(times.expert_gradient.time.us(), pass, 1e-3);
  EXPECT_EQ(times.expert_gradient.backward, 1);
  EXPECT_EQ(times.expert_reduction, SimTime());
  // The dense part: 4 h^2 of attention with 4 h of biases, 4 h of norms, 8 h of the router.
  EXPECT_EQ(times.weight_bytes, Bytes(static_cast<int64_t>((4 * kH2 + 16 * 1024) * 2)));
  // ZeRO 2 reduces by layer, and gathers all weights once at the end; ZeRO 1 does both at the end.
  m.zero = 2;
  const PassTimes two = Times(Model(8), m);
  EXPECT_EQ(two.expert_weight_gather, SimTime());
  EXPECT_NEAR(two.expert_gradient.time.us(), pass, 1e-3);
  const double all = 3.0 / 4 * 4 * expert / 20e9 * 1e6 + 2 * 2 + 10;  // of 4 layers
  EXPECT_NEAR(two.expert_reduction.us(), all, 1e-3);
  m.zero = 1;
  EXPECT_NEAR(Times(Model(8), m).expert_reduction.us(), 2 * all, 1e-3);
}

TEST(PassCostsTest, ExchangesOfALayer) {
  // 1,024 tokens of 1,024 values of two bytes: 2 MiB. All-reduce over 4 neighbours: 2 (3/4) of it
  // at 100 GB/s and a latency; two forward, two backward, one more under sequence parallelism.
  const double hidden = 2 * kH2;
  ParallelMapping m = Mapping(4, 1);
  m.overlap_tensor = false;
  PassTimes times = Times(Model(), m);
  EXPECT_NEAR(times.tensor.time.us(), 1.5 * hidden / 100e9 * 1e6 + 20, 1e-3);
  EXPECT_EQ(times.tensor.forward, 2);
  EXPECT_EQ(times.tensor.backward, 2);
  m.sequence_parallel = true;
  EXPECT_EQ(Times(Model(), m).tensor.backward, 3);
  m.recompute = Recompute::kFull;
  EXPECT_EQ(Times(Model(), m).tensor.backward, 5);
  m.recompute = Recompute::kAlternate;
  EXPECT_EQ(Times(Model(), m).tensor.backward, 4);
  // Each token visits two experts: two reductions for them and one of attention.
  m = Mapping(4, 8);
  m.overlap_tensor = false;
  EXPECT_EQ(Times(Model(8), m).tensor.forward, 3);
  EXPECT_EQ(Times(Model(8), m).tensor.backward, 3);
  // Context: of 512 own tokens keys and values (2 x 1,024 values) go to one other device.
  m = Mapping(1, 1);
  m.context = 2;
  times = Times(Model(), m);
  EXPECT_NEAR(times.context.time.us(), 512 * 2048 * 2 / 100e9 * 1e6 + 2, 1e-3);
  EXPECT_EQ(times.context.forward, 1);
  EXPECT_EQ(times.context.backward, 2);
  // Experts: 2 visits a token; of 16 ranks 8 are in the node, so half of the bytes leave it.
  m = Mapping(1, 16);
  m.expert = 16;
  times = Times(Model(16), m);
  EXPECT_NEAR(times.expert.time.us(), 2 * hidden * 8 / 16 / 10e9 * 1e6 + 20, 1e-3);
  // Between stages a micro-batch of 2 MiB through one NIC.
  m = Mapping(1, 1);
  m.pipeline = 2;
  EXPECT_NEAR(Times(Model(), m).transfer.us(), hidden / 10e9 * 1e6, 1e-3);
  // Four shards, each by its NIC, then gathered in the node in three steps unless sequences stay
  // divided.
  m.tensor = 4;
  EXPECT_NEAR(Times(Model(), m).transfer.us(),
              hidden / 4 / 10e9 * 1e6 + hidden * 3 / 4 / 100e9 * 1e6 + 3 * 2, 1e-3);
  m.sequence_parallel = true;
  EXPECT_NEAR(Times(Model(), m).transfer.us(), hidden / 4 / 10e9 * 1e6, 1e-3);
}

// A gradient that accumulates in 32 bits over micro-batches is read and written by its product, 8
// bytes a weight instead of the 2 of a 16-bit result: 6 x 12 h^2 bytes are exposed at the memory's
// peak of 100 GB/s. Kept and reduced in 16 bits it is 2 x 12 h^2; a single micro-batch writes only.
TEST(PassCostsTest, AccumulationOfGradientsIsExposed) {
  ClusterParameters p = Cluster();
  p.peak = FlopRate::Teraflops(1);
  p.peak_memory = Bandwidth::GBps(100);
  TransformerConfig c = Model();
  c.dtype = DType::kBFloat16;
  ParallelMapping m = Mapping(1, 1);
  m.gradient_bytes = 2;
  const double plain = Times(c, m, p).layer_weight.us();
  const auto exposed = [&](int32_t bytes, int32_t count) {
    m.gradient_bytes = bytes;
    m.global_batch = count;
    return Times(c, m, p).layer_weight.us() - plain;
  };
  const double byte = 12 * kH2 / 100e9 * 1e6;  // one for each weight
  EXPECT_NEAR(exposed(4, 1), 2 * byte, 1e-2);
  EXPECT_NEAR(exposed(4, 2), 6 * byte, 1e-2);
  EXPECT_NEAR(exposed(2, 2), 2 * byte, 1e-2);
}

// Two reductions of a layer's backward pass, of the input gradients of qkv and of the first
// feed-forward product, run behind those products' weight gradients: at 1 TFLOP/s 2 T h 3h / 4 FLOP
// take 1,611 us and 2 T h 4h / 4 take 2,147, longer than the 51.5 us of a reduction. Under sequence
// parallelism the gathering of the products' inputs runs behind their input gradients, as long
// again; the gathering of the gradients where the sharded regions end is left, half of two
// reductions.
TEST(PassCostsTest, TensorReductionsHideBehindWeightGradients) {
  ClusterParameters p = Cluster();
  p.peak = FlopRate::Teraflops(1);
  p.matrix_efficiency = 1;
  p.peak_memory = Bandwidth::GBps(1e9);
  ParallelMapping m = Mapping(4, 1);
  PassTimes times = Times(Model(), m, p);
  const double qkv = 2 * 1024 * 3 * kH2 / 4 / 1e12 * 1e6, up = qkv * 4 / 3;
  EXPECT_EQ(times.tensor.backward, 0);
  EXPECT_EQ(times.tensor_hidden.time, times.tensor.time);
  ASSERT_EQ(times.tensor_hidden.cover.size(), 2u);
  EXPECT_NEAR(times.tensor_hidden.cover[0].us(), qkv, 1);
  EXPECT_NEAR(times.tensor_hidden.cover[1].us(), up, 1);
  EXPECT_EQ(times.tensor_hidden.Exposed(), SimTime());
  ParallelMapping exposed = m;
  exposed.overlap_tensor = false;
  EXPECT_NEAR((Times(Model(), exposed, p).layer_backward - times.layer_backward).us(),
              2 * times.tensor.time.us(), 1e-3);
  m.sequence_parallel = true;
  times = Times(Model(), m, p);
  EXPECT_EQ(times.tensor.backward, 1);
  EXPECT_NEAR(times.tensor_hidden.cover[0].us(), 2 * qkv, 1);
  // What a slow link leaves uncovered is waited for.
  p.exchanges = Exchanges({.node_gbps = 1, .gather_gbps = 1});
  m.sequence_parallel = false;
  times = Times(Model(), m, p);
  const double reduction = 1.5 * 2 * kH2 / 1e9 * 1e6 + 20;
  EXPECT_NEAR(times.tensor_hidden.Exposed().us(), 2 * reduction - qkv - up, 2);
  // Zero-bubble schedules run weight gradients later.
  m.pipeline = 2;
  m.schedule = ScheduleKind::kZeroBubbleH1;
  EXPECT_EQ(Times(Model(), m, p).tensor.backward, 2);
}

// With memory that takes no time a layer takes its products: 24 T h^2 + 4 T s h FLOP forward for T
// tokens, twice that backward, of which the weights' gradients 24 T h^2; the head 2 T h V.
TEST(PassCostsTest, ProductsOfALayer) {
  ClusterParameters p = ProductsAlone();
  const double t = 1024, h = 1024, us = 1e6 / 100e12;
  ParallelMapping m = Mapping(1, 1);
  PassTimes times = Times(Model(), m, p);
  const double products = 24 * t * h * h * us, attention = 4 * t * 1024 * h * us;
  EXPECT_NEAR(times.layer_forward.us(), products + attention, 1);
  EXPECT_NEAR(times.layer_backward.us(), 2 * (products + attention), 1);
  EXPECT_NEAR(times.layer_weight.us(), products, 1);
  EXPECT_NEAR(times.head_forward.us(), 2 * t * h * 2048 * us, 1);
  m.recompute = Recompute::kFull;
  EXPECT_NEAR(Times(Model(), m, p).layer_backward.us(), 3 * (products + attention), 1);
  m.recompute = Recompute::kSelective;
  EXPECT_NEAR(Times(Model(), m, p).layer_backward.us(), 2 * products + 3 * attention, 1);
  // Every second layer; or every second product of each, attention kept only where it is fused.
  m.recompute = Recompute::kAlternate;
  EXPECT_NEAR(Times(Model(), m, p).layer_backward.us(), 2.5 * (products + attention), 1);
  m.recompute = Recompute::kOperators;
  EXPECT_NEAR(Times(Model(), m, p).layer_backward.us(), 2.5 * products + 3 * attention, 1);
  // A fused attention skips what the mask hides, and multiplies the scores once more backward: half
  // of 4 T s h forward, half of 10 T s h backward.
  TransformerConfig fused = Model();
  fused.fused_attention = true;
  m.recompute = Recompute::kNone;
  times = Times(fused, m, p);
  EXPECT_NEAR(times.layer_forward.us(), products + attention / 2, 1);
  EXPECT_NEAR(times.layer_backward.us(), 2 * products + 1.25 * attention, 1);
  m.recompute = Recompute::kOperators;
  EXPECT_NEAR(Times(fused, m, p).layer_backward.us(), 2.5 * products + 1.25 * attention, 1);
  p.attention_slowdown = 2;
  EXPECT_NEAR(Times(fused, m, p).layer_forward.us(), products + attention, 1);
}

// Frozen weights have no gradients: backward takes the input's products, 24 T h^2 / 3 + ..., plus
// the adapter of rank 16 on qkv: its two products of T h 16 and T 3h 16 forward, as much twice
// backward. Only its 16 (h + 3 h) elements are reduced, for each of the layers.
TEST(PassCostsTest, AdaptersTrainAlone) {
  ClusterParameters p = ProductsAlone();
  const double t = 1024, h = 1024, us = 1e6 / 100e12;
  ParallelMapping m = Mapping(1, 2);
  m.lora = 16;
  const double products = 24 * t * h * h * us, attention = 4 * t * 1024 * h * us;
  const double adapter = 2 * t * 16 * 4 * h * us;
  PassTimes times = Times(Model(), m, p);
  EXPECT_NEAR(times.layer_forward.us(), products + attention + adapter, 1);
  EXPECT_NEAR(times.layer_backward.us(), products + 2 * attention + 2 * adapter, 1);
  EXPECT_EQ(times.gradient_bytes, Bytes(static_cast<int64_t>(4 * 16 * 4 * h * 2)));
  // On every product: qkv, projection and the two of the feed-forward layer are 4, 2, 5 and 5 h
  // wide in and out together.
  m.lora_everywhere = true;
  times = Times(Model(), m, p);
  EXPECT_NEAR(times.layer_forward.us(), products + attention + 4 * adapter, 1);
  EXPECT_EQ(times.gradient_bytes, Bytes(static_cast<int64_t>(4 * 16 * 16 * h * 2)));
}

// Products in 8 bits take 0.58 of their time, attention and the output layer as long as before.
TEST(PassCostsTest, ProductsInEightBits) {
  ClusterParameters p = ProductsAlone();
  const double t = 1024, h = 1024, us = 1e6 / 100e12;
  ParallelMapping m = Mapping(1, 1);
  m.fp8 = true;
  const PassTimes times = Times(Model(), m, p);
  const double products = 24 * t * h * h * us, attention = 4 * t * 1024 * h * us;
  EXPECT_NEAR(times.layer_forward.us(), 0.58 * products + attention, 1);
  EXPECT_NEAR(times.layer_backward.us(), 2 * (0.58 * products + attention), 1);
  EXPECT_NEAR(times.head_forward.us(), 2 * t * h * 2048 * us, 1);
  ClusterParameters by_row = p;
  by_row.eight_bit_share = 0.75;
  EXPECT_NEAR(Times(Model(), m, by_row).layer_forward.us(), 0.75 * products + attention, 1);
  // Casts with memory alone: forward the inputs of the four products, T (h + h + h + 4 h) values of
  // which two bytes are read and two written; backward the gradients of the outputs, T (3 h + h + 4
  // h + h).
  p.peak = FlopRate::Teraflops(1e9);
  p.peak_memory = Bandwidth::GBps(100);
  p.memory_efficiency = 1;
  ParallelMapping whole = m;
  whole.fp8 = false;
  const PassTimes eight = Times(Model(), m, p), sixteen = Times(Model(), whole, p);
  const double byte = t * h / 100e9 * 1e6;
  // Products are bound by memory here and take 0.58 of 2 (7 h + 9 h) T + 2 * 12 h^2 bytes.
  const double moved = (2 * 16 + 2 * 12) * byte;
  EXPECT_NEAR((eight.layer_forward - sixteen.layer_forward).us(), 4 * 7 * byte - 0.42 * moved,
              0.01 * moved);
}

// ZeRO 3 in bfloat16 holds two layers' weights, one layer's gradients in 2 bytes and in the 4 that
// they are reduced in, and the output layer's weights with both forms of its gradient: 10 bytes for
// each of 12 h^2 + 13 h weights, 8 for each of 2,048 h + 2 h (with the final norm). Adapters leave
// weights alone: 4 and 2 bytes.
TEST(PassCostsTest, MemoryOfWhatIsGathered) {
  TransformerConfig c = Model();
  c.dtype = DType::kBFloat16;
  ParallelMapping m = Mapping(1, 8);
  m.zero = 3;
  const int64_t h = 1024, layer = 12 * h * h + 13 * h, head = 2050 * h;
  EXPECT_EQ(MemoryOf(c, m).gathered, Bytes(10 * layer + 8 * head));
  m.lora = 16;
  EXPECT_EQ(MemoryOf(c, m).gathered, Bytes(4 * layer + 2 * head));
  // Optimizer state is of the adapters: 16 (h + 3 h) elements a layer, divided over 8 replicas.
  EXPECT_EQ(MemoryOf(c, m).optimizer, Bytes(12 * 4 * 64 * h / 8));
}

// The CPU issues 5 us a kernel: where kernels take no time a layer takes that for each.
TEST(PassCostsTest, LaunchesBoundSmallLayers) {
  ClusterParameters p = Cluster();
  p.peak = FlopRate::Teraflops(1e9);
  p.peak_memory = Bandwidth::GBps(1e9);
  p.issue = SimTime::FromUs(5);
  // Forward: 2 norms, 4 products, scores, softmax, dropout, context, activation, 2 additions.
  EXPECT_NEAR(Times(Model(), Mapping(1, 1), p).layer_forward.us(), 13 * 5, 1e-3);
}

// Mixed precision: the norm reads 4 bytes a parameter, clipping 4 + 4, Adam reads four and writes
// three values of 4 bytes, the cast 4 + 2, and 2 are cleared: 48 in all. ZeRO divides all but the
// clearing. In bfloat16 gradients have 4 bytes.
TEST(PassCostsTest, OptimizerMovesItsStates) {
  ClusterParameters p = Cluster();
  p.peak_memory = Bandwidth::GBps(1000);
  p.memory_efficiency = 1;
  TransformerConfig c = Model();
  const double h = 1024, n = 4 * (12 * kH2 + 13 * h) + 2048 * h + 1024 * h;
  ParallelMapping m = Mapping(1, 4);
  EXPECT_NEAR(Times(c, m, p).optimizer.us(), 48 * n / 1e6, 1);
  m.zero = 1;
  EXPECT_NEAR(Times(c, m, p).optimizer.us(), (46 * n / 4 + 2 * n) / 1e6, 1);
  c.dtype = DType::kBFloat16;
  EXPECT_NEAR(Times(c, m, p).optimizer.us(), (46 * n / 4 + 4 * n) / 1e6, 1);
  EXPECT_EQ(Times(c, m, p).gradient_bytes, Bytes(static_cast<int64_t>(4 * n)));
  m.gradient_bytes = 2;
  EXPECT_EQ(Times(c, m, p).gradient_bytes, Bytes(static_cast<int64_t>(2 * n)));
}

}  // namespace
}  // namespace foretrace
