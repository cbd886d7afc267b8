// What weights' gradients are added to, by the bytes that move at 1 GB/s.
#include <gtest/gtest.h>

#include "tests/unit/mapping/hand_derived.h"

namespace foretrace {
namespace {

// In bf16; memory alone takes time.
TransformerConfig Narrow() {
  TransformerConfig c = Model();
  c.dtype = DType::kBFloat16;
  return c;
}
ClusterParameters MemoryAlone() {
  ClusterParameters p = GemmsAlone();
  p.peak = FlopRate::Teraflops(1e9);
  p.peak_memory = Bandwidth::GBps(1);
  p.memory_efficiency = 1;
  p.exchanges = Exchanges({.node_gbps = 1e6, .gather_gbps = 1e6, .inside_us = 0});
  return p;
}
// Two micro-batches on each of two devices.
ParallelMapping Twice(int32_t zero, int32_t gradient_bytes) {
  ParallelMapping m = Mapping(1, 2);
  m.global_batch = 4;
  m.zero = zero;
  m.gradient_bytes = gradient_bytes;
  return m;
}

// By the GEMM itself: 2 bytes of each of 12 h^2 weights are read beside the 2 that are written.
// Gradients that are divided over replicas are new ones of every micro-batch, of 32 bits where they
// are reduced in these, which kernels that copy them into a flat tensor write instead.
TEST(AccumulatedGradientsTest, DividedOnesAreWrittenAnew) {
  const double each = 2 * 12 * kH2 / 1e9;
  const SimTime added = Times(Narrow(), Twice(0, 2), MemoryAlone()).layer_weight;
  const SimTime divided = Times(Narrow(), Twice(3, 2), MemoryAlone()).layer_weight;
  EXPECT_NEAR((added - divided).seconds(), each, 1e-3 * each);
  const SimTime wide = Times(Narrow(), Twice(3, 4), MemoryAlone()).layer_weight;
  EXPECT_NEAR((wide - divided).seconds(), each, 1e-3 * each);
  ClusterParameters p = MemoryAlone();
  p.flat_parameters = true;
  EXPECT_EQ(Times(Narrow(), Twice(3, 4), p).layer_weight, divided);
}

// The embedding's, of 2,048 h: 2 bytes read, 4 read and 4 written; of 16 bits 6 in all; divided,
// none.
TEST(AccumulatedGradientsTest, OfTheEmbedding) {
  const auto backward = [](int32_t zero, int32_t bytes) {
    return Times(Narrow(), Twice(zero, bytes), MemoryAlone()).embedding_backward.seconds();
  };
  const double table = 2048 * 1024 / 1e9;
  EXPECT_NEAR(backward(0, 4) - backward(0, 2), 4 * table, 1e-3 * table);
  EXPECT_NEAR(backward(0, 2) - backward(3, 2), 6 * table, 1e-3 * table);
}

// Before they are reduced: the norm reads 4 bytes a weight, division by the replicas reads and
// writes them. A loss scale takes the norm's place in fp16; one replica divides by nothing.
TEST(AccumulatedGradientsTest, CheckedAndScaledBeforeTheyAreReduced) {
  const auto optimizer = [](const TransformerConfig& c, const ParallelMapping& m, bool checks,
                            bool scales) {
    ClusterParameters p = MemoryAlone();
    p.checks_gradients = checks;
    p.scales_gradients = scales;
    return Times(c, m, p).optimizer.seconds();
  };
  ParallelMapping m = Twice(1, 4), alone = m;
  alone.data = 1;
  alone.zero = 0;
  const double weights = 4 * (12 * kH2 + 13 * 1024) + (2048 + 1024 + 2) * 1024;
  const auto more = [&](const TransformerConfig& c, const ParallelMapping& of, bool checks,
                        bool scales) {
    const double seconds = optimizer(c, of, checks, scales) - optimizer(c, of, false, false);
    return seconds / (4 * weights / 1e9);
  };
  EXPECT_NEAR(more(Narrow(), m, true, false), 1, 0.01);
  EXPECT_NEAR(more(Narrow(), m, false, true), 2, 0.01);
  EXPECT_NEAR(more(Narrow(), alone, false, true), 0, 1e-6);
  TransformerConfig half = Narrow();
  half.dtype = DType::kFloat16;
  EXPECT_NEAR(more(half, m, true, false), 0, 1e-6);
}

// Views' gradients are put together, 2 bytes read and written of each of 12 h^2 + 13 h weights.
TEST(AccumulatedGradientsTest, OfFlatParameters) {
  ClusterParameters p = MemoryAlone();
  const PassTimes apart = Times(Narrow(), Twice(3, 2), p);
  p.flat_parameters = true;
  const PassTimes flat = Times(Narrow(), Twice(3, 2), p);
  const double weights = 12 * kH2 + 13 * 1024;
  EXPECT_NEAR((flat.layer_backward - apart.layer_backward).seconds(), 4 * weights / 1e9, 1e-6);
  EXPECT_EQ(flat.layer_forward, apart.layer_forward);
}

}  // namespace
}  // namespace foretrace
