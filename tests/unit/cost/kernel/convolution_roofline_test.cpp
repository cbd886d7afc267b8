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

TEST(ConvolutionRoofline, OtherFiltersAndWeightGradientsAreImplicitGemms) {
  for (const KernelWork& work : {Conv(5), Conv(3, Direction::kBackward)}) {
    const ConvolutionTime t = ConvolutionRoofline(Efficient(), A100(), Precision::kFloat32, work);
    EXPECT_EQ(t.algorithm_us[1], 0);
    EXPECT_EQ(t.algorithm_us[2], 0);
    EXPECT_EQ(t.kernel_us, t.implicit_gemm.kernel_us);
  }
}

}  // namespace
}  // namespace foretrace
