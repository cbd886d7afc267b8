#include <gtest/gtest.h>

#include "tests/unit/mapping/hand_derived.h"

namespace foretrace {
namespace {

// Bytes alone, at 1 GB/s; exchanges take next to nothing.
ClusterParameters MemoryAlone() {
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
  ClusterParameters p = MemoryAlone();
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
  ClusterParameters p = MemoryAlone();
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

// Along rows 3 bytes; down columns largest magnitudes (2) and a cast (3), 2.6 times as slow.
// Inputs are 7, output gradients 9 of T h, weights 12 h^2, T = h.
TEST(OperandCasts, ScalesByRow) {
  ClusterParameters p = MemoryAlone();
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
  ClusterParameters p = MemoryAlone();
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

}  // namespace
}  // namespace foretrace
