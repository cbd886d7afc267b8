#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "simulator/mapping/chunk_stash.h"
#include "simulator/mapping/device_spread.h"
#include "simulator/mapping/memory_model.h"
#include "tests/unit/mapping/hand_derived.h"

namespace foretrace {
namespace {

// GEMMs of 100 TFLOP/s alone, of which 40 last at the power limit: everything takes 2.5 times as
// long; a limit above the rate changes nothing.
TEST(PassCostsTest, PowerLimitBoundsGemms) {
  TransformerConfig c = Model();
  c.dtype = DType::kBFloat16;
  const PassTimes free = Times(c, Mapping(1, 1), GemmsAlone());
  ClusterParameters p = GemmsAlone();
  p.sustained = FlopRate::Teraflops(200);
  EXPECT_EQ(Times(c, Mapping(1, 1), p).layer_forward, free.layer_forward);
  p.sustained = FlopRate::Teraflops(40);
  const SimTime limited = Times(c, Mapping(1, 1), p).head_forward;
  EXPECT_NEAR(limited.seconds() / free.head_forward.seconds(), 2.5, 1e-3);
}

// A layer takes 5 us more for each kernel between which the stream idles as long.
TEST(PassCostsTest, StreamsIdleBetweenKernels) {
  ClusterParameters p = GemmsAlone();
  const SimTime without = Times(Model(), Mapping(1, 1), p).head_forward;
  p.kernel_gap = SimTime::FromUs(5);
  const SimTime with = Times(Model(), Mapping(1, 1), p).head_forward;
  // The final norm, the output layer's GEMM and the loss's cast, largest, difference, exponential,
  // sum and division.
  const double kernels = (with - without).us() / 5;
  EXPECT_NEAR(kernels, std::round(kernels), 1e-6);
  EXPECT_EQ(std::round(kernels), 2 + 6);
}

// Whole attention is 4 s^2 h FLOP, half of them masked; pieces of a quarter of the sequence need a
// quarter of that, a window of as many keys before every query half.
TEST(PassCostsTest, WindowsOfAttention) {
  TransformerConfig c = Model();
  c.fused_attention = true;
  const double whole_s = 2 * 1024.0 * kH2 / 1e14;
  const auto forward = [&] {
    return Times(c, Mapping(1, 1), GemmsAlone()).layer_forward.seconds();
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

// The larger of two normal variables is 1 / sqrt(pi) above their mean, of three 1.5 / sqrt(pi); of
// 2,048 3.44 (tables of normal order statistics give 3.2414 for 1,000).
TEST(DeviceSpreadTest, ExpectedMaximumOfNormals) {
  EXPECT_EQ(ExpectedMaximum(1), 0);
  EXPECT_NEAR(ExpectedMaximum(2), 0.5641896, 1e-7);
  EXPECT_NEAR(ExpectedMaximum(3), 0.8462844, 1e-7);
  EXPECT_NEAR(ExpectedMaximum(1000), 3.2414, 1e-4);
}

// GEMMs of two devices that differ by 10 % take 5.64 % longer than the median's, where a power
// limit is what they run at.
TEST(DeviceSpreadTest, TheSlowestDeviceCounts) {
  ClusterParameters p = GemmsAlone();
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

// A quarter of the layers dense, the first one: its own time on its stage, and its own memory. The
// further token takes a mixture's layer, the output layer and a GEMM of 2 h by h again.
TEST(PassCostsTest, LayersOfTwoKindsAndFurtherTokens) {
  TransformerConfig c = Model(4);
  c.ffn = 1024;
  c.dense_first = 1;
  c.dense_ffn = 8192;
  const PassTimes both = Times(c, Mapping(1, 1), GemmsAlone());
  const PassTimes dense = Times(WithLayersOf(c, true), Mapping(1, 1), GemmsAlone());
  const PassTimes mixture = Times(WithLayersOf(c, false), Mapping(1, 1), GemmsAlone());
  EXPECT_EQ(both.layer_forward, mixture.layer_forward);
  ASSERT_EQ(both.others.size(), 1u);
  EXPECT_EQ(both.others[0]->layer_forward, dense.layer_forward);
  EXPECT_NEAR(both.optimizer.seconds(),
              0.25 * dense.optimizer.seconds() + 0.75 * mixture.optimizer.seconds(), 1e-9);
  const auto stash = [](const TransformerConfig& kind) {
    return LayerStash(kind, Mapping(1, 1), Recompute::kNone);
  };
  const double plain = stash(WithLayersOf(c, true)), mixed = stash(WithLayersOf(c, false));
  EXPECT_NEAR(ChunkStash(ModelLayers(c), Mapping(1, 1), 0, 0), plain + 3 * mixed, 1);
  ParallelMapping two = Mapping(1, 1);
  two.pipeline = 2;
  EXPECT_NEAR(ChunkStash(ModelLayers(c), two, 0, 0), plain + mixed, 1);
  EXPECT_NEAR(ChunkStash(ModelLayers(c), two, 1, 0), 2 * mixed, 1);
  const auto pipeline = PipelineOf(c, two, Times(c, two, GemmsAlone()));
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  const auto own = [&](int stage) {
    return pipeline->stages[static_cast<size_t>(stage)].forward[0].seconds();
  };
  EXPECT_NEAR(own(0) - both.embedding_forward.seconds(),
              dense.layer_forward.seconds() + mixture.layer_forward.seconds(), 1e-9);
  EXPECT_NEAR(own(1) - both.head_forward.seconds(), 2 * mixture.layer_forward.seconds(), 1e-9);
  c.further_tokens = 1;
  const PassTimes further = Times(c, Mapping(1, 1), GemmsAlone());
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
  const PassTimes plain = Times(c, Mapping(1, 1), GemmsAlone());
  c.head_size = 128;
  c.rotary_size = c.value_size = 64;
  c.latent = 256;
  c.query_latent = 512;
  const PassTimes latent = Times(c, Mapping(1, 1), GemmsAlone());
  const double h = 1024, s = 1024;
  const double weights = h * 512 + 512 * 16 * 128 + h * 320 + 256 * 16 * 128 + 16 * 64 * h;
  const double scores = 2 * 16 * (128 + 64) * s * s / 2;
  const double before = 4 * h * h, scores_before = 4 * h * s * s / 2;
  const double more = 2 * s * (weights - before) + scores - scores_before;
  EXPECT_NEAR((latent.layer_forward - plain.layer_forward).seconds(), more / 100e12, 2e-7);
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

// Eight experts on four devices: 1,024 tokens routed to two experts, of 1,024 activations of 2
// bytes are copied, read and written, before and after the experts, backward likewise; with one
// expert a device nothing is to be sorted.
TEST(PassCostsTest, VisitsAreSortedByExpert) {
  ClusterParameters p = GemmsAlone();
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

// GEMMs of layers in 8 bits: backward, both of them, half again as long; the output layer's in
// 16 bits are as before.
TEST(PassCostsTest, PartialSumsInThirtyTwoBits) {
  TransformerConfig c = Model();
  c.dtype = DType::kBFloat16;
  c.fused_attention = true;
  ParallelMapping m = Mapping(1, 1);
  m.fp8 = true;
  m.gradient_bytes = 2;
  ClusterParameters p = GemmsAlone();
  const PassTimes fast = Times(c, m, p);
  p.split_accumulation = 1.5;
  const PassTimes promoted = Times(c, m, p);
  EXPECT_EQ(promoted.layer_forward, fast.layer_forward);
  EXPECT_EQ(promoted.head_backward, fast.head_backward);
  const double gemms = 2 * 2 * 1024 * 12 * kH2 * p.eight_bit_share / 100e12;
  EXPECT_NEAR((promoted.layer_backward - fast.layer_backward).seconds(), 0.5 * gemms, 1e-7);
  // With scales by block forward ones too, half as many.
  p.promotes_forward = true;
  const PassTimes both = Times(c, m, p);
  EXPECT_EQ(both.layer_backward, promoted.layer_backward);
  EXPECT_NEAR((both.layer_forward - fast.layer_forward).seconds(), 0.5 * gemms / 2, 1e-7);
}

// A gradient that accumulates in 32 bits over micro-batches is read and written by its GEMM, 8
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

// With memory that takes no time a layer takes its GEMMs: 24 T h^2 + 4 T s h FLOP forward for T
// tokens, twice that backward, of which the weights' gradients 24 T h^2; the head 2 T h V.
TEST(PassCostsTest, GemmsOfALayer) {
  ClusterParameters p = GemmsAlone();
  const double t = 1024, h = 1024, us = 1e6 / 100e12;
  ParallelMapping m = Mapping(1, 1);
  PassTimes times = Times(Model(), m, p);
  const double gemms = 24 * t * h * h * us, attention = 4 * t * 1024 * h * us;
  EXPECT_NEAR(times.layer_forward.us(), gemms + attention, 1);
  EXPECT_NEAR(times.layer_backward.us(), 2 * (gemms + attention), 1);
  EXPECT_NEAR(times.layer_weight.us(), gemms, 1);
  EXPECT_NEAR(times.head_forward.us(), 2 * t * h * 2048 * us, 1);
  m.recompute = Recompute::kFull;
  EXPECT_NEAR(Times(Model(), m, p).layer_backward.us(), 3 * (gemms + attention), 1);
  m.recompute = Recompute::kSelective;
  EXPECT_NEAR(Times(Model(), m, p).layer_backward.us(), 2 * gemms + 3 * attention, 1);
  // Every second layer; or every second GEMM of each, attention kept only where it is fused.
  m.recompute = Recompute::kAlternate;
  EXPECT_NEAR(Times(Model(), m, p).layer_backward.us(), 2.5 * (gemms + attention), 1);
  m.recompute = Recompute::kOperators;
  EXPECT_NEAR(Times(Model(), m, p).layer_backward.us(), 2.5 * gemms + 3 * attention, 1);
  // A fused attention skips what the mask hides, and multiplies the scores once more backward: half
  // of 4 T s h forward, half of 10 T s h backward.
  TransformerConfig fused = Model();
  fused.fused_attention = true;
  m.recompute = Recompute::kNone;
  times = Times(fused, m, p);
  EXPECT_NEAR(times.layer_forward.us(), gemms + attention / 2, 1);
  EXPECT_NEAR(times.layer_backward.us(), 2 * gemms + 1.25 * attention, 1);
  m.recompute = Recompute::kOperators;
  EXPECT_NEAR(Times(fused, m, p).layer_backward.us(), 2.5 * gemms + 1.25 * attention, 1);
  p.attention_slowdown = 2;
  EXPECT_NEAR(Times(fused, m, p).layer_forward.us(), gemms + attention, 1);
}

// Frozen weights have no gradients: backward takes the input's GEMMs, 24 T h^2 / 3 + ..., plus
// the adapter of rank 16 on qkv: its two GEMMs of T h 16 and T 3h 16 forward, as much twice
// backward. Only its 16 (h + 3 h) elements are reduced, for each of the layers.
TEST(PassCostsTest, AdaptersTrainAlone) {
  ClusterParameters p = GemmsAlone();
  const double t = 1024, h = 1024, us = 1e6 / 100e12;
  ParallelMapping m = Mapping(1, 2);
  m.lora = 16;
  const double gemms = 24 * t * h * h * us, attention = 4 * t * 1024 * h * us;
  const double adapter = 2 * t * 16 * 4 * h * us;
  PassTimes times = Times(Model(), m, p);
  EXPECT_NEAR(times.layer_forward.us(), gemms + attention + adapter, 1);
  EXPECT_NEAR(times.layer_backward.us(), gemms + 2 * attention + 2 * adapter, 1);
  EXPECT_EQ(times.gradient_bytes, Bytes(static_cast<int64_t>(4 * 16 * 4 * h * 2)));
  // On every GEMM: qkv, projection and the two of the feed-forward layer are 4, 2, 5 and 5 h
  // wide in and out together.
  m.lora_everywhere = true;
  times = Times(Model(), m, p);
  EXPECT_NEAR(times.layer_forward.us(), gemms + attention + 4 * adapter, 1);
  EXPECT_EQ(times.gradient_bytes, Bytes(static_cast<int64_t>(4 * 16 * 16 * h * 2)));
}

// The CPU issues 5 us a kernel: where kernels take no time a layer takes that for each.
TEST(PassCostsTest, LaunchesBoundSmallLayers) {
  ClusterParameters p = Cluster();
  p.peak = FlopRate::Teraflops(1e9);
  p.peak_memory = Bandwidth::GBps(1e9);
  p.issue = SimTime::FromUs(5);
  // Forward: 2 norms, 4 GEMMs, scores, softmax, dropout, context, activation, 2 additions.
  EXPECT_NEAR(Times(Model(), Mapping(1, 1), p).layer_forward.us(), 13 * 5, 1e-3);
}

}  // namespace
}  // namespace foretrace
