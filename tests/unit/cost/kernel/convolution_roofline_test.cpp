#include "simulator/cost/kernel/convolution_roofline.h"

#include <gtest/gtest.h>

#include "tests/unit/cost/kernel/work_on_a100.h"

namespace foretrace {
namespace {

// 64 images of 32x32, 512 channels and filters, stride 1 and "same" padding.
KernelWork Conv(int64_t filter, Direction pass = Direction::kForward) {
  Conv2dOp op{64, 512, 32, 32, 512, filter, filter, 32, 32};
  const KernelList list = Kernels({op, DType::kFloat32, pass});
  return list.back();
}

GemmParameters Efficient() {
  GemmParameters p{0, 1, 0, 1};
  p.fused_efficiency = 1;
  p.staged_efficiency = 1;
  return p;
}

TEST(ConvolutionRoofline, WinogradSavesTheMultiplicationsThatItSaves) {
  const ConvolutionTime t = ConvolutionRoofline(Efficient(), A100(), Precision::kFloat32, Conv(3));
  // F(2x2, 3x3): 16 multiplications for what took 4 * 9 = 36. 16 by 16 tiles in blocks of 4 by 8 of
  // them and 32 filters are 64 * 8 * 16 = 8,192 blocks, 75.9 waves of 108, so 76. Transforming
  // 512 * 512 filters from 9 to 16 numbers takes 25 * 4 bytes each at 1,555 GB/s.
  const double direct = 2.0 * 64 * 32 * 32 * 512 * 512 * 9 / 19.5e6;
  EXPECT_NEAR(t.algorithm_us[1], direct * 16 / 36 * 76 * 108 / 8192 + 512.0 * 512 * 25 * 4 / 1555e3,
              direct * 1e-3);
  // F(4x4, 3x3): 36 for 16 * 9 = 144, and the transforms' traffic on top.
  EXPECT_GT(t.algorithm_us[2], direct * 36 / 144);
  EXPECT_LT(t.algorithm_us[2], t.algorithm_us[1]);
  EXPECT_EQ(t.kernel_us, t.algorithm_us[2]);
}

// 3 images of 5x5, 17 channels, 40 filters: sizes that fill no tile.
KernelWork SmallConv() {
  Conv2dOp op{3, 17, 5, 5, 40, 3, 3, 5, 5};
  return Kernels({op, DType::kFloat32, Direction::kForward}).front();
}

TEST(ConvolutionRoofline, LaunchesTheBlocksThatTheLibraryHasForTheArchitecture) {
  // Images of 5x5 are 3x3 tiles of 2x2. Volta has one arrangement, an image by 4 by 8 tiles: 3
  // blocks for 2 times 32 filters. Ampere has also 4 images by 4 by 2 tiles: 1 by 1 by 2. Pascal's
  // 2 images by 4 by 4 also take 2.
  const auto blocks = [](std::string_view gpu) {
    return ConvolutionRoofline(Efficient(), *FindGpuPeaks(gpu), Precision::kFloat32, SmallConv())
        .fused_blocks;
  };
  EXPECT_EQ(blocks("v100-pcie"), 3 * 2);
  EXPECT_EQ(blocks("a100-pcie-40gb"), 2 * 2);
  EXPECT_EQ(blocks("p100-pcie"), 2 * 2);
  // Staged: 2x2 tiles of 4x4, of 16 images for 3.
  const ConvolutionTime t =
      ConvolutionRoofline(Efficient(), A100(), Precision::kFloat32, SmallConv());
  EXPECT_EQ(t.staged_rows, 16 * 4);
  EXPECT_DOUBLE_EQ(t.staged_share, 75.0 / (64 * 16));
  EXPECT_DOUBLE_EQ(t.fused_share, 75.0 / (2 * 128));
}

TEST(ConvolutionRoofline, WavesOfBlocksAndChoicesAmongAlgorithmsCost) {
  // Of 8,192 fused blocks in 76 waves, 3 us each; the other algorithms' shares as they are.
  GemmParameters p = Efficient();
  const ConvolutionTime before = ConvolutionRoofline(p, A100(), Precision::kFloat32, Conv(3));
  p.block_us = 3;
  const ConvolutionTime t = ConvolutionRoofline(p, A100(), Precision::kFloat32, Conv(3));
  EXPECT_NEAR(t.algorithm_us[1] - before.algorithm_us[1], 3 * 76, 1);
  EXPECT_EQ(t.algorithm_us[2], before.algorithm_us[2]);
  EXPECT_EQ(t.kernel_us, t.algorithm_us[2]);
  // Where the choice is a toss-up, the time is between the fastest and the slowest.
  p.algorithm_spread = 0.5;
  const double spread = ConvolutionRoofline(p, A100(), Precision::kFloat32, Conv(3)).kernel_us;
  EXPECT_GT(spread, t.algorithm_us[2]);
  EXPECT_LT(spread, t.algorithm_us[0]);
}

TEST(ConvolutionRoofline, WeightGradientsHaveTheStagedFormAlone) {
  const KernelWork work = Conv(3, Direction::kBackward);
  ASSERT_TRUE(work.weight_gradient);
  const ConvolutionTime t = ConvolutionRoofline(Efficient(), A100(), Precision::kFloat32, work);
  EXPECT_EQ(t.algorithm_us[1], 0);
  // 64 * 8 * 8 tiles of 4x4: 36 GEMMs of 512 filters by 512 channels over 4,096 tiles. At least
  // their FLOP at the peak; at most that, four waves of rounding in a hundred and the traffic of
  // the transforms: both operands written and read, 2 * 36 * 2 * 512 * 4,096 * 4 bytes, the
  // GEMMs likewise, 2 * 36 * 512 * 512 * 4, and the images, 2 * 64 * 512 * 1,024 * 4, at 1,555
  // GB/s.
  const double gemms = 2.0 * 36 * 512 * 512 * 4096 / 19.5e6;
  const double bytes = 4.0 * (2.0 * 36 * (2 * 512 * 4096 + 512 * 512) + 2.0 * 64 * 512 * 1024);
  EXPECT_GT(t.algorithm_us[2], gemms);
  EXPECT_LT(t.algorithm_us[2], 1.04 * gemms + bytes / 1555e3);
  EXPECT_EQ(t.kernel_us, t.algorithm_us[2]);
}

TEST(ConvolutionRoofline, OtherFiltersAreImplicitGemms) {
  for (const KernelWork& work : {Conv(5), Conv(5, Direction::kBackward)}) {
    const ConvolutionTime t = ConvolutionRoofline(Efficient(), A100(), Precision::kFloat32, work);
    EXPECT_FALSE(IsWinograd(work));
    EXPECT_EQ(t.algorithm_us[1], 0);
    EXPECT_EQ(t.algorithm_us[2], 0);
    EXPECT_EQ(t.kernel_us, t.algorithm_us[0]);
  }
}

}  // namespace
}  // namespace foretrace
