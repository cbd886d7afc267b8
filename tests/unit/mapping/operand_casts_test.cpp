#include <gtest/gtest.h>

#include "tests/unit/mapping/hand_derived.h"

namespace foretrace {
namespace {

// Bytes alone, at 1 GB/s; exchanges take next to nothing.
ClusterParameters CastsAlone() {
  ClusterParameters p = Cluster();
  p.peak = FlopRate::Teraflops(1e9);
  p.peak_memory = Bandwidth::GBps(1);
  p.memory_efficiency = 1;
  p.exchanges = Exchanges({.node_gbps = 1e6, .gather_gbps = 1e6, .inside_us = 0});
  p.issue = SimTime();
  p.eight_bit_share = 1;
  return p;
}

ParallelMapping Sequence(int32_t tensor) {
  ParallelMapping m = Mapping(tensor, 1);
  m.sequence_parallel = tensor > 1;
  m.fp8 = true;
  return m;
}

struct Moved {
  double forward, backward;
};
// In units of T h: what casts move in a layer's passes, beyond those of 16 bits.
Moved Casts(const ParallelMapping& m, const ClusterParameters& p) {
  ParallelMapping whole = m;
  whole.fp8 = false;
  const PassTimes eight = Times(Model(), m, p), sixteen = Times(Model(), whole, p);
  const double unit = 1024.0 * 1024.0 / 1e9;
  return {(eight.layer_forward - sixteen.layer_forward).seconds() / unit,
          (eight.layer_backward - sixteen.layer_backward).seconds() / unit};
}

// Of two ranks each has half of what enters and leaves the tensor-parallel region: of the inputs
// qkv's and the first feed-forward GEMM's (1 + 1 of T h), and of output gradients those of the
// other two (1 + 1). Cast before they are gathered each is read in 2 bytes and written in 1 by
// half, then read and written in 1 whole: 1.5 + 2 instead of the 4 that all others take of what
// this rank has, (1 + 4) / 2 of inputs and (3 + 4) / 2 of gradients.
TEST(OperandCasts, GatheredOnesAreCastBefore) {
  ClusterParameters p = CastsAlone();
  p.casts_before_gathers = true;
  const Moved before = Casts(Sequence(2), p);
  EXPECT_NEAR(before.forward, 2 * 3.5 + 4 * 5 / 2.0, 0.05);
  EXPECT_NEAR(before.backward, 2 * 3.5 + 4 * 7 / 2.0, 0.05);
  // Cast behind, in both orders, of all that was gathered.
  p.casts_before_gathers = false;
  const Moved behind = Casts(Sequence(2), p);
  EXPECT_NEAR(behind.forward, 2 * 4 + 4 * 5 / 2.0, 0.05);
  EXPECT_NEAR(behind.backward, 2 * 4 + 4 * 7 / 2.0, 0.05);
}

// What is gathered in a layer has a byte an element instead of two, what is scattered still two.
TEST(OperandCasts, GathersOfCastOperandsTakeHalf) {
  ClusterParameters p = CastsAlone();
  const auto bytes = [&](bool before, CollectiveOp op) {
    p.casts_before_gathers = before;
    TransformerConfig c = Model();
    c.dtype = DType::kBFloat16;
    const PassTimes times = Times(c, Sequence(2), p);
    int64_t sum = 0;
    for (const bool forward : {true, false}) {
      for (const PassExchange& e : times.layer_exchanges.of(forward)) {
        if (e.op == op) sum += e.count * e.bytes.count();
      }
    }
    return sum;
  };
  const auto gather = CollectiveOp::kAllGather, scatter = CollectiveOp::kReduceScatter;
  EXPECT_GT(bytes(true, gather), 0);
  EXPECT_EQ(2 * bytes(true, gather), bytes(false, gather));
  EXPECT_EQ(bytes(true, scatter), bytes(false, scatter));
}

// By blocks 33/32 of a byte an element and order. Two GEMMs enter and two leave: inputs are
// gathered forward and again backward, output gradients once in both orders.
TEST(OperandCasts, GathersByBlockHaveTheOrderThatIsUsed) {
  ClusterParameters p = CastsAlone();
  p.casts_before_gathers = true;
  p.four_bit_share = 0.5;
  TransformerConfig c = Model();
  c.dtype = DType::kBFloat16;
  ParallelMapping m = Sequence(2);
  m.fp8 = false;
  m.mxfp8 = true;
  const PassTimes times = Times(c, m, p);
  for (const auto& [forward, gathered] : {std::pair(true, 2), std::pair(false, 2 + 2 * 2)}) {
    int64_t sum = 0;
    for (const PassExchange& e : times.layer_exchanges.of(forward)) {
      if (e.op == CollectiveOp::kAllGather) sum += e.count * e.bytes.count();
    }
    EXPECT_EQ(sum, gathered * 1024 * 1024 * 33 / 32);
  }
}

// Along rows 3 bytes; down columns largest magnitudes (2) and a cast (3), 2.6 times as slow.
// Inputs are 7, output gradients 9 of T h, weights 12 h^2, T = h.
TEST(OperandCasts, ScalesByRow) {
  ClusterParameters p = CastsAlone();
  p.scaled_by_row = true;
  Moved casts = Casts(Sequence(1), p);
  EXPECT_NEAR(casts.forward, 3 * (7 + 12), 0.2);
  EXPECT_NEAR(casts.backward, 3 * 9 + 2.6 * 5 * (7 + 12 + 9), 1);
  // Of two ranks each casts all of what it gathered (2 of inputs, 2 of gradients).
  casts = Casts(Sequence(2), p);
  EXPECT_NEAR(casts.forward, 3 * (2 + 5 / 2.0 + 6), 0.2);
  EXPECT_NEAR(casts.backward, 3 * (2 + 7 / 2.0) + 2.6 * 5 * (2 + 5 / 2.0 + 6 + 2 + 7 / 2.0), 1);
}

// Largest magnitudes (2) and casts (3) of inputs and weights, forward and again backward; of
// gradients 2 and 4. What is gathered: 5 by half, then transposed whole (2).
TEST(OperandCasts, ScalesByTensor) {
  ClusterParameters p = CastsAlone();
  p.dynamic_scaling = true;
  Moved casts = Casts(Sequence(1), p);
  EXPECT_NEAR(casts.forward, 5 * (7 + 12), 0.3);
  EXPECT_NEAR(casts.backward, 5 * (7 + 12) + 6 * 9, 0.6);
  p.casts_before_gathers = true;
  casts = Casts(Sequence(2), p);
  EXPECT_NEAR(casts.forward, 5 * (2 / 2.0 + 5 / 2.0 + 6), 0.3);
  const double gathered = 2 * 2 + (5 / 2.0 + 2) * 2;
  EXPECT_NEAR(casts.backward, gathered + 5 * (5 / 2.0 + 6) + 6 * 7 / 2.0, 0.6);
}

// GEMMs in 8 bits take 0.58 of their time, attention and the output layer as long as before.
TEST(OperandCasts, GemmsInEightBits) {
  ClusterParameters p = GemmsAlone();
  const double t = 1024, h = 1024, us = 1e6 / 100e12;
  ParallelMapping m = Mapping(1, 1);
  m.fp8 = true;
  const PassTimes times = Times(Model(), m, p);
  const double gemms = 24 * t * h * h * us, attention = 4 * t * 1024 * h * us;
  EXPECT_NEAR(times.layer_forward.us(), 0.58 * gemms + attention, 1);
  EXPECT_NEAR(times.layer_backward.us(), 2 * (0.58 * gemms + attention), 1);
  EXPECT_NEAR(times.head_forward.us(), 2 * t * h * 2048 * us, 1);
  ClusterParameters by_row = p;
  by_row.eight_bit_share = 0.75;
  EXPECT_NEAR(Times(Model(), m, by_row).layer_forward.us(), 0.75 * gemms + attention, 1);
  // Casts with memory alone: forward the inputs of the four GEMMs, T (h + h + h + 4 h) values of
  // which two bytes are read and two written; backward the gradients of the outputs, T (3 h + h + 4
  // h + h).
  p.peak = FlopRate::Teraflops(1e9);
  p.peak_memory = Bandwidth::GBps(100);
  p.memory_efficiency = 1;
  ParallelMapping whole = m;
  whole.fp8 = false;
  const PassTimes eight = Times(Model(), m, p), sixteen = Times(Model(), whole, p);
  const double byte = t * h / 100e9 * 1e6;
  // GEMMs are bound by memory here and take 0.58 of 2 (7 h + 9 h) T + 2 * 12 h^2 bytes.
  const double moved = (2 * 16 + 2 * 12) * byte;
  EXPECT_NEAR((eight.layer_forward - sixteen.layer_forward).us(), 4 * 7 * byte - 0.42 * moved,
              0.01 * moved);
}

// At 16 bits' rate a layer's GEMMs take 3 x 24 T h^2 FLOP; in 4 bits 0.29 of that each. Casts,
// of the memory alone: forward inputs of the four GEMMs are 1 + 1 + 1 + 4 times n = T h values,
// backward gradients 3 + 1 + 4 + 1. In 8 bits each value is read in 2 bytes and written in 2 x 1
// with 2/32 of scales; in 4 bits it is read twice, and 2 x (1/2 + 1/16) written.
TEST(OperandCasts, OperandsScaledByBlocks) {
  ClusterParameters p = GemmsAlone();
  TransformerConfig c = Model();
  c.biases = false;
  ParallelMapping m = Mapping(1, 1);
  const auto refused = [&](const char* words) {
    const auto mapping = ParseMapping(words, 1, "test");
    return mapping.ok() && !TimePasses(c, *mapping, p).ok();
  };
  EXPECT_TRUE(refused("tp1 pp1 dp1 nvfp4"));  // no such rate
  p.four_bit_share = 0.29;
  EXPECT_TRUE(refused("tp1 pp1 dp1 nvfp4 fp8"));
  EXPECT_TRUE(refused("tp1 pp1 dp1 mxfp8 nvfp4"));
  EXPECT_FALSE(refused("tp1 pp1 dp1 nvfp4"));
  const double gemms = 24.0 * 1024 * kH2 / 100e12;
  const SimTime plain = Times(c, m, p).layer_backward;
  m.nvfp4 = true;
  EXPECT_NEAR((plain - Times(c, m, p).layer_backward).seconds(), 0.71 * 2 * gemms, 1e-7);
  m.nvfp4 = false;
  m.mxfp8 = true;
  EXPECT_NEAR((plain - Times(c, m, p).layer_backward).seconds(), 0.42 * 2 * gemms, 1e-7);
  p = GemmsAlone();
  p.four_bit_share = p.eight_bit_share = 1e-9;
  p.peak = FlopRate::Teraflops(1e9);
  p.peak_memory = Bandwidth::GBps(100);
  p.memory_efficiency = 1;
  const double n = 1024.0 * 1024;
  const auto casts = [&](const char* words, bool forward) {
    ParallelMapping own = m, none = m;
    none.mxfp8 = none.nvfp4 = false;
    own.mxfp8 = std::string(words) == "mxfp8";
    own.nvfp4 = !own.mxfp8;
    const PassTimes with = Times(c, own, p), without = Times(c, none, p);
    // Without GEMMs, which the memory bounds here.
    const auto of = [&](const PassTimes& t) {
      return forward ? t.layer_forward : t.layer_backward;
    };
    const double weights = 12 * kH2 * 2, in = 7 * n * 2, out = 9 * n * 2;
    const double moved = forward ? weights + in + out : 0;
    return (of(with) - of(without)).seconds() * 100e9 + moved;
  };
  EXPECT_NEAR(casts("mxfp8", true) / (7 * n), 2 + 2 * 33.0 / 32, 0.02);
  EXPECT_NEAR(casts("nvfp4", true) / (7 * n), 4 + 2 * 9.0 / 16, 0.02);
}

}  // namespace
}  // namespace foretrace
