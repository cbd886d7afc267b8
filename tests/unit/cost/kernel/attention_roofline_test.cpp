#include "simulator/cost/kernel/attention_roofline.h"

#include <gtest/gtest.h>

#include <cmath>

#include "simulator/cost/kernel/vector_rates.h"
#include "simulator/cost/operator/kernel_work.h"
#include "tests/support/plain_device.h"

namespace foretrace {
namespace {

// The peak takes warpgroups' instructions.
GpuPeaks Device() { return PlainDevice(0.5); }

GemmParameters Ideal() {
  GemmParameters p;
  p.base_us = 0;
  p.compute_efficiency = 1;
  p.tile_intensity = 0;
  p.partial_wave = 1;
  return p;
}

double Us(const AttentionOp& op, Direction pass, const GemmParameters& p = Ideal()) {
  const KernelList kernels = Kernels({op, DType::kBFloat16, pass});
  EXPECT_EQ(kernels.size(), 1u);
  return GemmRoofline(p, Device(), Precision::kHalf, kernels.front()).compute_us;
}

// A score forward on Hopper: GEMMs of 4 x d FLOP at 100 TFLOP/s, in turn with an exponential
// and 5.5 instructions of other warpgroups, which hide a part of each other.
double Forward(double d) {
  return std::pow(std::pow(4 * d / 100e6, 1.5) + std::pow(1 / 1.6e6 + 5.5 / 6.4e6, 1.5), 1 / 1.5);
}

TEST(AttentionRooflineTest, RatesFollowFromUnitsAndClock) {
  EXPECT_NEAR(VectorRatesOf(Device()).exponentials_per_us, 1.6e6, 1);
  EXPECT_NEAR(VectorRatesOf(Device()).instructions_per_us, 6.4e6, 1);
  // FlashAttention-3 (section 3.1) states 3.9 T exponentials a second of an H100.
  const auto h100 = FindGpuPeaks("h100-sxm5");
  ASSERT_TRUE(h100.ok()) << h100.status();
  EXPECT_NEAR(VectorRatesOf(*h100).exponentials_per_us * 1e6, 3.9e12, 0.05e12);
}

// 40 heads, 2,560 queries and keys, depth 128: 262 M scores, 800 blocks of 128 queries. Backward
// GEMMs take 10 x 128 FLOP a score, exponentials 1/1.6 us a million, 12 instructions more 6.4 a
// picosecond. Each of 100 multiprocessors has eight blocks, with 0.3 us each to fill and to drain
// forward, 4 backward.
TEST(AttentionRooflineTest, ExponentialsRunBesideGemmsOrBetween) {
  const AttentionOp op{1, 40, 40, 2560, 2560, 128};
  const double scores = 40.0 * 2560 * 2560;
  EXPECT_NEAR(Us(op, Direction::kForward), scores * Forward(128) + 8 * 0.3, 1e-6);
  EXPECT_NEAR(Us(op, Direction::kBackward),
              scores * (1280 / 100e6 + 1 / 1.6e6 + 12 / 6.4e6) + 8 * 4, 1e-6);
  // A causal mask halves the scores; tiles on the diagonal, 128 of 2,560 keys, are whole, and the
  // longest of eight rounds ends 0.3 / 8 later.
  AttentionOp causal = op;
  causal.causal = true;
  EXPECT_NEAR(Us(causal, Direction::kForward),
              scores * Forward(128) / 2 * 1.05 * (1 + 0.3 / 8) + 8 * 0.3, 1e-6);
}

// 800 heads of one query and 2,560 keys: as many blocks, whose GEMMs no other's exponentials hide.
TEST(AttentionRooflineTest, SingleQueriesTakeNoTurns) {
  const double scores = 800.0 * 2560;
  EXPECT_NEAR(Us({1, 800, 800, 1, 2560, 128}, Direction::kForward),
              scores * (512 / 100e6 + 1 / 1.6e6) + 8 * 0.7, 1e-6);
}

// One head of 2,560 queries and keys: 20 blocks on 100 multiprocessors, of which that of the last
// 128 queries has no key masked.
TEST(AttentionRooflineTest, TheLongestBlockOfACausalMask) {
  const AttentionOp op{1, 1, 1, 2560, 2560, 128, true};
  const double longest = 128.0 * 2560 * 100;
  // A fifth of a block's filling and draining for each multiprocessor, in the mean.
  EXPECT_NEAR(Us(op, Direction::kForward), longest * Forward(128) + 0.2 * 0.3, 1e-6);
  EXPECT_NEAR(Us(op, Direction::kBackward),
              longest * (1280 / 100e6 + 1 / 1.6e6 + 12 / 6.4e6) + 0.2 * 4, 1e-6);
}

// On Blackwell exponentials, 0.625 us a million scores, hide behind the GEMMs of the other
// tile, 5.12 us, and a block has 256 queries. Backward nothing does, and eight blocks take 4 us
// more.
TEST(AttentionRooflineTest, BlackwellPairsTiles) {
  GpuPeaks device = Device();
  const auto us = [&](const AttentionOp& op, Direction pass) {
    device.accelerator.instructions.asynchronous_matrices = true;
    const KernelWork work = Kernels({op, DType::kBFloat16, pass})[0];
    return GemmRoofline(Ideal(), device, Precision::kHalf, work).compute_us;
  };
  const AttentionOp op{1, 40, 40, 2560, 2560, 128};
  EXPECT_NEAR(us(op, Direction::kForward), 40.0 * 2560 * 2560 * 512 / 100e6 + 8 * 0.7, 1e-6);
  EXPECT_NEAR(us(op, Direction::kBackward), Us(op, Direction::kBackward) + 8 * 3.5, 1e-6);
  EXPECT_NEAR(us({1, 1, 1, 2560, 2560, 128, true}, Direction::kForward),
              256.0 * 2560 * 100 * 512 / 100e6 + 0.2 * 0.7, 1e-6);
}

// Tiles of 64 x 64 have 32 results for each row and column that they load, those of 128 x 256 have
// 256 / 3: where a tile needs 32 to reach half of the rate, the GEMMs of Hopper's backward pass
// take twice as long as at its peak, those of Blackwell's 1.375 times.
TEST(AttentionRooflineTest, HoppersBackwardTilesAreSmall) {
  GpuPeaks device = Device();
  GemmParameters parameters = Ideal();
  parameters.tile_intensity = 32;
  const AttentionOp op{1, 40, 40, 2560, 2560, 128};
  const KernelWork work = Kernels({op, DType::kBFloat16, Direction::kBackward})[0];
  const auto longer_us = [&] {
    return GemmRoofline(parameters, device, Precision::kHalf, work).compute_us -
           GemmRoofline(Ideal(), device, Precision::kHalf, work).compute_us;
  };
  const double gemms_us = 40.0 * 2560 * 2560 * 1280 / 100e6;
  EXPECT_NEAR(longer_us(), gemms_us, 1e-6);
  device.accelerator.instructions.asynchronous_matrices = true;
  EXPECT_NEAR(longer_us(), 0.375 * gemms_us, 1e-6);
}

// 110 blocks on 100 multiprocessors are two waves: persistent blocks take whole tiles.
TEST(AttentionRooflineTest, BlocksComeInWaves) {
  const AttentionOp one{1, 100, 100, 128, 4096, 128}, more{1, 110, 110, 128, 4096, 128};
  EXPECT_NEAR(Us(more, Direction::kForward) - 1.1 * 0.3, 2 * (Us(one, Direction::kForward) - 0.3),
              1e-6);
}

// Kernels of warps are no persistent ones: a last wave takes what it fills, and none was measured
// to have more beside its tiles.
TEST(AttentionRooflineTest, KernelsOfWarpsEndWaveByWave) {
  GpuPeaks device = Device();
  device.accelerator.instructions.warp_gemms = 1;
  const auto us = [&](int64_t heads) {
    const KernelWork work = Kernels(
        {AttentionOp{1, heads, heads, 128, 4096, 128}, DType::kBFloat16, Direction::kForward})[0];
    return GemmRoofline(Ideal(), device, Precision::kHalf, work).compute_us;
  };
  EXPECT_NEAR(us(110), 1.1 * us(100), 1e-6);
}

// 128 queries and keys of each of 100 heads of 64: 1.6 M scores. Three products of TF32 for each of
// fp32 at 0.28 of 50 TFLOP/s, of which kernels for Ampere reach half.
TEST(AttentionRooflineTest, FloatsAreMultipliedInThreeParts) {
  const KernelWork work =
      Kernels({AttentionOp{1, 100, 100, 128, 128, 64}, DType::kFloat32, Direction::kForward})[0];
  const double scores = 100.0 * 128 * 128;
  EXPECT_NEAR(GemmRoofline(Ideal(), Device(), Precision::kFloat32, work).compute_us,
              scores * (4 * 64 / (50e6 * 0.5 / 3 * 0.28) + 1 / 1.6e6) + 0.7, 1e-6);
}

// Before a backward pass dO and O are read and fp32 sums are cleared, after it those are read and
// dQ is written: 14 bytes an element of 2, which a B200's kernels do not show.
TEST(AttentionRooflineTest, BackwardPassesHaveOthersAround) {
  GpuPeaks device = Device();
  const AttentionOp op{1, 100, 100, 128, 128, 64};
  const KernelWork work = Kernels({op, DType::kBFloat16, Direction::kBackward})[0];
  const auto around_us = [&] {
    const GemmTime time = GemmRoofline(Ideal(), device, Precision::kHalf, work);
    return time.kernel_us - SmoothSum(time.compute_us, time.memory_us, Ideal().overlap_power);
  };
  EXPECT_NEAR(around_us(), 100.0 * 128 * 64 * 14 / (1e9 * Ideal().bandwidth_efficiency), 1e-9);
  device.accelerator.instructions.asynchronous_matrices = true;
  EXPECT_NEAR(around_us(), 0, 1e-9);
}

}  // namespace
}  // namespace foretrace
