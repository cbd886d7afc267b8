#include "simulator/cost/kernel/warp_attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "simulator/cost/kernel/vector_rates.h"
#include "simulator/cost/operator/kernel_work.h"
#include "tests/support/plain_device.h"

namespace foretrace {
namespace {

// Warps multiply at 62.9 of 100 TFLOP/s.
GpuPeaks Device() { return PlainDevice(0.629); }

GemmTime Time(const AttentionOp& op, Direction pass = Direction::kForward) {
  KernelWork work = Kernels({op, DType::kBFloat16, pass})[0];
  work.by_warps = true;
  return GemmRoofline({}, Device(), Precision::kHalf, work);
}

double Us(const AttentionOp& op, Direction pass = Direction::kForward) {
  return Time(op, pass).compute_us;
}

constexpr double kTileScores = 128 * 128 * 100;  // of a tile, as all multiprocessors have one
// GEMMs of a tile, then its exponentials, then instructions a score: 5.5, and its part of rescaling
// the results. A step takes 220 cycles besides, of 128 keys or, of heads wider than 64, of 64.
constexpr double kNarrowUs = kTileScores * (4 * 64 / 62.9e6 + 1 / 1.6e6 + 6 / 6.4e6) + 0.22;
constexpr double kWideUs = kTileScores * (4 * 128 / 62.9e6 + 1 / 1.6e6 + 7.5 / 6.4e6) + 0.44;
constexpr double kStartUs = 10.25;

// 50 heads of 256 queries: 100 blocks, one a multiprocessor, each over two tiles of 128 keys, under
// a mask the longest.
TEST(WarpAttentionTest, OneBlockForEachMultiprocessor) {
  EXPECT_NEAR(Us({1, 50, 50, 256, 256, 64}), kStartUs + 2 * kNarrowUs, 1e-6);
  EXPECT_NEAR(Us({1, 50, 50, 256, 256, 64, true}), kStartUs + 2 * kNarrowUs, 1e-6);
  EXPECT_NEAR(Us({1, 50, 50, 256, 256, 128}), kStartUs + 2 * kWideUs, 1e-6);
}

// 250 blocks: a pair for each multiprocessor, whose starts hide half of each other, then one for
// half of them. 300: a second pair, for half as well.
TEST(WarpAttentionTest, PairsShareAMultiprocessor) {
  const double pair = 2 * (kStartUs / 2 + 2 * kNarrowUs);
  EXPECT_NEAR(Us({1, 125, 125, 256, 256, 64}), pair + kStartUs + 2 * kNarrowUs, 1e-6);
  EXPECT_NEAR(Us({1, 100, 100, 256, 256, 64}), pair, 1e-6);
  EXPECT_NEAR(Us({1, 160, 160, 256, 256, 64}), 2 * pair, 1e-6);
}

// 1,000 blocks of one or two tiles under a mask, 1.5 in the mean; half of the longest pair at the
// end.
TEST(WarpAttentionTest, TheLongestOfAMaskEndLast) {
  const double mean = kStartUs / 2 + 1.5 * kNarrowUs, longest = kStartUs / 2 + 2 * kNarrowUs;
  EXPECT_NEAR(Us({1, 500, 500, 256, 256, 64, true}), 10 * mean + longest, 1e-6);
}

// 200 blocks. Copies of 250 queries or heads of 80 are predicated, so that a quarter of their
// starts is hidden; heads of 80 compute as those of 96.
TEST(WarpAttentionTest, SizesThatFillNoTiles) {
  const double part = 0.75 * kStartUs;
  EXPECT_NEAR(Us({1, 100, 100, 250, 250, 64}), 2 * (part + 2 * kNarrowUs), 1e-6);
  EXPECT_NEAR(Us({1, 100, 100, 256, 256, 80}) - Us({1, 100, 100, 256, 256, 96}), kStartUs / 2,
              1e-6);
}

// 100 blocks of keys with the multiprocessor to themselves: GEMMs of 10 x 64 FLOP a score,
// exponentials, 12 instructions, a step, and 128 x 64 sums of 4 bytes, 1,024 sectors of which each
// multiprocessor moves 0.51 a cycle. 250 are three rounds; under a mask the mean and half of the
// longest.
TEST(WarpAttentionTest, GradientsRunAlone) {
  const double tile =
      kTileScores * (640 / 62.9e6 + 1 / 1.6e6 + 12 / 6.4e6) + 0.22 + 1024 / 0.51 * 1e-3;
  const auto us = [](int64_t heads, bool causal) {
    return Us({1, heads, heads, 256, 256, 64, causal}, Direction::kBackward);
  };
  EXPECT_NEAR(us(50, false), 26 + 2 * tile, 1e-4);
  EXPECT_NEAR(us(125, false), 3 * (26 + 2 * tile), 1e-4);
  EXPECT_NEAR(us(50, true), 26 + 2 * tile, 1e-4);
  EXPECT_NEAR(us(125, true), 2.5 * (26 + 1.5 * tile) + (26 + 2 * tile) / 2, 1e-4);
}

// Kernels before and after: two starts, and 14 bytes of each element of the queries.
TEST(WarpAttentionTest, KernelsAroundGradients) {
  const GpuPeaks device = Device();
  const GemmTime time = Time({1, 50, 50, 256, 256, 64}, Direction::kBackward);
  const double start =
      device.accelerator.instructions.shortest_kernel.us() + ColdStartUs(device, 1);
  EXPECT_NEAR(time.kernel_us - SmoothMax(time.compute_us, time.memory_us),
              2 * start + 50.0 * 256 * 64 * 14 / (1e9 * GemmParameters().bandwidth_efficiency),
              1e-9);
}

// Where the peak is that of warps, kernels are the device's own.
TEST(WarpAttentionTest, AmperesOwnKernels) {
  GpuPeaks device = Device();
  device.accelerator.instructions.warp_gemms = 1;
  KernelWork work =
      Kernels({AttentionOp{1, 50, 50, 256, 256, 64}, DType::kBFloat16, Direction::kForward})[0];
  const double own = GemmRoofline({}, device, Precision::kHalf, work).kernel_us;
  work.by_warps = true;
  EXPECT_EQ(GemmRoofline({}, device, Precision::kHalf, work).kernel_us, own);
}

}  // namespace
}  // namespace foretrace
