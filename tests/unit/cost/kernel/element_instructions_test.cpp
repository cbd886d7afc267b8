#include "simulator/cost/kernel/element_instructions.h"

#include <gtest/gtest.h>

#include "simulator/cost/kernel/vector_rates.h"

namespace foretrace {
namespace {

TEST(ElementInstructions, VectorsTakeNone) {
  EXPECT_EQ(ElementInstructions(KernelRole::kElementwise, {1000, 3, 4}), 0);
  EXPECT_EQ(ElementInstructions(KernelRole::kUnknown, {1000, 3, 4}), 0);
}

TEST(ElementInstructions, EachDimensionIsADivision) {
  // 24 an element; three for a division and one for each tensor's stride.
  EXPECT_EQ(ElementInstructions(KernelRole::kStrided, {1000, 2, 4}), 1000 * (24 + 4 * 5));
  EXPECT_EQ(ElementInstructions(KernelRole::kStrided, {1000, 3, 2}), 1000 * (24 + 2 * 6));
}

TEST(ElementInstructions, ConversionsAndGathers) {
  EXPECT_EQ(ElementInstructions(KernelRole::kConverted, {1000, 2, 1}), 1000 * (24 + 2 * 6));
  EXPECT_EQ(ElementInstructions(KernelRole::kGather, {1000, 2, 1}), 1000 * (24 + 4 * 18));
  EXPECT_EQ(ElementInstructions(KernelRole::kStrided, {-5, 2, 4}), 0);
}

TEST(VectorRates, IntegersRunAt64AClockAndMultiprocessor) {
  // A100: 108 multiprocessors at 1,410 MHz.
  const GpuPeaks a100 = *FindGpuPeaks("a100-pcie-40gb");
  EXPECT_NEAR(VectorRatesOf(a100).integers_per_us, 108 * 64 * 1410.0, 1);
  EXPECT_NEAR(VectorRatesOf(a100).cycles_per_us, 1410, 1e-6);
  EXPECT_NEAR(InstructionUs(a100, 108 * 64 * 1410.0), 1, 1e-9);
  EXPECT_EQ(InstructionUs(a100, 0), 0);
  EXPECT_NEAR(ColdStartUs(a100, 2), (800 + 2 * 700) / 1410.0, 1e-9);
  // AMD's empty their caches at each begin.
  EXPECT_NEAR(ColdStartUs(*FindGpuPeaks("mi250"), 1), (2400 + 1800) / 1700.0, 1e-9);
  EXPECT_NEAR(ArithmeticUs(a100, Flop(9.75e6)), 2.25, 1e-3);
  // A file without a clock: as many lanes for integers as for fp32.
  GpuPeaks bare = a100;
  bare.accelerator.units.clear();
  EXPECT_NEAR(VectorRatesOf(bare).integers_per_us, 19.5e6 / 2, 1);
}

TEST(ElementInstructions, PoolsOfChannelsThatLieTogether) {
  EXPECT_EQ(PoolInstructions("void max_pool_forward_nhwc<c10::BFloat16, int>", 1000), 58 * 1000);
  EXPECT_EQ(PoolInstructions("void max_pool_backward_nhwc<c10::BFloat16, float>", 1000),
            130 * 1000);
  EXPECT_EQ(PoolInstructions("void max_pool_forward_nchw<float, int>", 1000), 0);
}

// 108 multiprocessors take 0.51 sectors a cycle each.
TEST(VectorRates, ScatteredAccessesTakeASectorEach) {
  const GpuPeaks a100 = *FindGpuPeaks("a100-pcie-40gb");
  EXPECT_NEAR(ScatteredUs(a100, 51 * 108 * 1410), 100, 1e-9);
}

// A block a cycle but for a tenth, at 1,410 MHz.
TEST(VectorRates, BlocksAreHandedOutOneByOne) {
  const GpuPeaks a100 = *FindGpuPeaks("a100-pcie-40gb");
  EXPECT_NEAR(DispatchUs(a100, 1410 * 9), 10, 1e-9);
}

}  // namespace
}  // namespace foretrace
