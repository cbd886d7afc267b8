#include "simulator/cost/kernel/convolution_roofline.h"

#include <gtest/gtest.h>

namespace foretrace {
namespace {

GpuPeaks A100() { return *FindGpuPeaks("a100-pcie-40gb"); }

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
  // F(2x2, 3x3): 16 multiplications for what took 4 * 9 = 36. 64 * 16 * 16 tiles in blocks of 32 by
  // 32 filters are 512 * 16 = 8,192 blocks, 75.9 waves of 108, so 76.
  const double direct = 2.0 * 64 * 32 * 32 * 512 * 512 * 9 / 19.5e6;
  EXPECT_NEAR(t.algorithm_us[1], direct * 16 / 36 * 76 * 108 / 8192, direct * 1e-3);
  // F(4x4, 3x3): 36 for 16 * 9 = 144, and the transforms' traffic on top.
  EXPECT_GT(t.algorithm_us[2], direct * 36 / 144);
  EXPECT_LT(t.algorithm_us[2], t.algorithm_us[1]);
  EXPECT_EQ(t.kernel_us, t.algorithm_us[2]);
}

TEST(ConvolutionRoofline, WeightGradientsHaveTheStagedFormAlone) {
  const KernelWork work = Conv(3, Direction::kBackward);
  ASSERT_TRUE(work.weight_gradient);
  const ConvolutionTime t = ConvolutionRoofline(Efficient(), A100(), Precision::kFloat32, work);
  EXPECT_EQ(t.algorithm_us[1], 0);
  // 64 * 8 * 8 tiles of 4x4: 36 GEMMs of 512 filters by 512 channels over 4,096 tiles. At least
  // their FLOP at the peak; at most that, four waves of rounding in a hundred and the traffic of
  // the transforms: both operands written and read, 2 * 36 * 2 * 512 * 4,096 * 4 bytes, the
  // products likewise, 2 * 36 * 512 * 512 * 4, and the images, 2 * 64 * 512 * 1,024 * 4, at 1,555
  // GB/s.
  const double products = 2.0 * 36 * 512 * 512 * 4096 / 19.5e6;
  const double bytes = 4.0 * (2.0 * 36 * (2 * 512 * 4096 + 512 * 512) + 2.0 * 64 * 512 * 1024);
  EXPECT_GT(t.algorithm_us[2], products);
  EXPECT_LT(t.algorithm_us[2], 1.04 * products + bytes / 1555e3);
  EXPECT_EQ(t.kernel_us, t.algorithm_us[2]);
}

TEST(ConvolutionRoofline, OtherFiltersAreImplicitGemms) {
  for (const KernelWork& work : {Conv(5), Conv(5, Direction::kBackward)}) {
    const ConvolutionTime t = ConvolutionRoofline(Efficient(), A100(), Precision::kFloat32, work);
    EXPECT_FALSE(IsWinograd(work));
    EXPECT_EQ(t.algorithm_us[1], 0);
    EXPECT_EQ(t.algorithm_us[2], 0);
    EXPECT_EQ(t.kernel_us, t.implicit_gemm.kernel_us);
  }
}

}  // namespace
}  // namespace foretrace
