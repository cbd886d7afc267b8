#include "simulator/cost/kernel/analytic_convolution.h"

#include <gtest/gtest.h>

#include "simulator/cost/kernel/analytic_gemm.h"
#include "simulator/cost/kernel/convolution_sizes.h"
#include "simulator/cost/kernel/depthwise_convolution.h"
#include "simulator/cost/kernel/kernel_model.h"
#include "simulator/cost/kernel/tiled_convolution.h"
#include "simulator/cost/kernel/vector_rates.h"

namespace foretrace {
namespace {

struct Layer {
  int64_t images, channels, side, filters, filter, stride = 1, groups = 1;
};

KernelList Passes(const Layer& l, DType dtype, Direction pass) {
  Conv2dOp op;
  op.n = l.images;
  op.c = l.channels;
  op.h = op.w = l.side;
  op.k = l.filters;
  op.r = op.s = l.filter;
  op.oh = op.ow = (l.side + l.stride - 1) / l.stride;  // "same" padding
  op.groups = l.groups;
  return Kernels({op, dtype, pass});
}

KernelWork Forward(const Layer& layer, DType dtype) {
  return Passes(layer, dtype, Direction::kForward)[0];
}

const GpuPeaks& H100() {
  static const GpuPeaks device = *FindGpuPeaks("h100-sxm5-80gb");
  return device;
}

double HalfUs(const GpuPeaks& device, const Layer& layer) {
  return AnalyticConvolutionUs(device, Precision::kHalf, Forward(layer, DType::kBFloat16));
}

double SingleUs(const GpuPeaks& device, const KernelWork& work) {
  return AnalyticConvolutionUs(device, Precision::kFloat32, work);
}

// 28 x 28 pixels of 2 bytes are 98 loads of 16: the product of the images as they lie. 7 x 7 are
// 6.1: images and results change their layout, 64 (512 + 2048) 49 x 2 bytes and the filters' 2 MB
// there and back, 36.3 MB at 0.88 of 3,350 GB/s, in two kernels.
TEST(AnalyticConvolution, ImagesOfWholeLoadsKeepTheirLayout) {
  const KernelWork whole = Forward({16, 128, 28, 512, 1}, DType::kBFloat16);
  EXPECT_NEAR(AnalyticConvolutionUs(H100(), Precision::kHalf, whole),
              GemmRoofline(AnalyticGemm(H100(), Precision::kHalf), H100(), Precision::kHalf, whole)
                  .kernel_us,
              1e-9);
  const KernelWork odd = Forward({64, 512, 7, 2048, 1}, DType::kBFloat16);
  const double bytes = 2.0 * (64 * 49 * (512 + 2048) + 512 * 2048);
  const double around_us = LayoutTransformsUs(H100(), 2, bytes);
  EXPECT_NEAR(around_us, 2 * bytes / (3350e3 * 0.88) + 2 * ColdStartUs(H100(), 4), 1e-9);
  const double us = AnalyticConvolutionUs(H100(), Precision::kHalf, odd);
  EXPECT_GT(us, around_us + odd.flop.count() / 989e6);
  EXPECT_NEAR(us, 36.5, 0.15 * 36.5);  // measured
}

// Measured on the H100 (kernels.csv.xz), with their transforms.
TEST(AnalyticConvolution, FiltersOfManyPositionsChangeTheirLayoutToo) {
  EXPECT_NEAR(HalfUs(H100(), {32, 128, 28, 128, 3}), 34.3, 0.15 * 34.3);
}

// A position of the filter takes whole steps of 64 channels (128 bytes): with 16 of them three
// quarters of each step are empty, so that 64 channels take no longer but for their bytes.
TEST(AnalyticConvolution, FewChannelsLeaveStepsEmpty) {
  const double few = HalfUs(H100(), {64, 16, 56, 256, 3}),
               many = HalfUs(H100(), {64, 64, 56, 256, 3});
  EXPECT_GT(few, 0.8 * many);
  EXPECT_LT(few, many);
}

// 4 images of 588 channels of 8 x 8 have but four tiles of 64 x 128, whose 9 x 10 steps of 64
// channels nobody shares.
TEST(AnalyticConvolution, SumsOfForwardPassesAreNotDivided) {
  const double us = HalfUs(H100(), {4, 588, 8, 124, 3});
  EXPECT_NEAR(us, 36.3, 0.35 * 36.3);  // measured
}

// Channels that fill no loads are padded, and kernels for Ampere take them.
TEST(AnalyticConvolution, ChannelsOfHalfALoadCostMore) {
  EXPECT_GT(HalfUs(H100(), {64, 124, 28, 124, 3}), 1.5 * HalfUs(H100(), {64, 128, 28, 128, 3}));
}

// DeepBench's V100 took 186 us, its kernels storing results as the framework wants them.
TEST(AnalyticConvolution, VoltaStoresResultsInPlace) {
  const GpuPeaks v100 = *FindGpuPeaks("v100-sxm2-16gb");
  EXPECT_NEAR(HalfUs(v100, {8, 256, 28, 512, 3}), 186, 0.2 * 186);
}

// cuDNN 9 takes implicit GEMMs on the H100, for 3 x 3 filters as well: measured.
TEST(AnalyticConvolution, HoppersMultiprocessorsHaveImplicitGemms) {
  EXPECT_NEAR(SingleUs(H100(), Forward({64, 512, 7, 2048, 1}, DType::kFloat32)), 213.9,
              0.1 * 213.9);
  EXPECT_NEAR(SingleUs(H100(), Forward({16, 64, 56, 64, 3}, DType::kFloat32)), 129.9, 0.2 * 129.9);
  // Gradients of filters by Winograd, as before it.
  const KernelWork weights =
      Passes({16, 256, 14, 256, 3}, DType::kFloat32, Direction::kBackward)[1];
  const KernelWork strided =
      Passes({16, 256, 14, 256, 3, 2}, DType::kFloat32, Direction::kBackward)[1];
  EXPECT_LT(SingleUs(H100(), weights) / weights.flop.count(),
            SingleUs(H100(), strided) / strided.flop.count());
}

// 16 images of 256 x 28 x 28 to 512 channels by 3 x 3 in fp32: 29.6 GFLOP, which would take 1,885
// us at the V100's 15.7 TFLOP/s. Winograd's F(4x4, 3x3) leaves a quarter of the multiplications;
// DeepBench measured 801 us.
TEST(AnalyticConvolution, OlderMultiprocessorsUseWinograd) {
  const KernelWork work = Forward({16, 256, 28, 512, 3}, DType::kFloat32);
  EXPECT_NEAR(SingleUs(*FindGpuPeaks("v100-sxm2-16gb"), work), 801, 0.25 * 801);
}

// 8 images of 64 channels of 56 x 56: 1.6 M elements of 90 + 9 x 7.3 instructions, of which the
// H100 starts 64 x 132 x 1.83 GHz. With a filter for each channel no product fills a tile.
TEST(DepthwiseConvolution, IsBoundByInstructions) {
  const Layer layer{8, 64, 56, 64, 3, 1, 64};
  const KernelWork work = Forward(layer, DType::kFloat32);
  ASSERT_TRUE(IsDepthwise(work));
  const double busy_us = 8.0 * 64 * 56 * 56 * (90 + 9 * 7.3) / (64 * 132 * 1830.0);
  EXPECT_NEAR(SingleUs(H100(), work), busy_us + ColdStartUs(H100(), 4), 0.01 * busy_us);
  EXPECT_FALSE(IsDepthwise(Forward({8, 64, 56, 64, 3}, DType::kFloat32)));
  // As on tensor cores, and whatever GEMMs were measured.
  KernelModel gemm;
  gemm.form = KernelForm::kGemm;
  gemm.key = {KernelKind::kGemm, Precision::kFloat32, Direction::kForward, 0};
  EXPECT_NEAR(KernelModels(H100(), {gemm}).Predict(work, Precision::kFloat32).time.us(),
              SingleUs(H100(), work), 1e-3);
}

// Of 12 channels' filters of one element 12 blocks take the gradients, of 132 multiprocessors:
// eight warps of each go through 107 images of 35 x 35 pixels, 14 x 39 steps of 280 cycles.
// Measured, with the gradients of the input: 109 us.
TEST(DepthwiseConvolution, GradientsOfFiltersHaveABlockForEachElement) {
  const KernelList passes =
      Passes({107, 12, 35, 12, 1, 1, 12}, DType::kBFloat16, Direction::kBackward);
  const double us = SingleUs(H100(), passes[1]);
  EXPECT_NEAR(us, (670 + 14 * 39 * 280) / 1830.0 + ColdStartUs(H100(), 4), 0.1);
  EXPECT_NEAR(us + SingleUs(H100(), passes[0]), 109, 0.15 * 109);
}

TEST(ConvolutionSizes, AreThoseOfTheOperator) {
  const Layer layer{4, 24, 30, 48, 3, 2};
  const KernelList gradients = Passes(layer, DType::kFloat32, Direction::kBackward);
  for (const KernelWork& work : {Forward(layer, DType::kFloat32), gradients[0], gradients[1]}) {
    const ConvolutionSizes s = ConvolutionSizesOf(work);
    EXPECT_EQ(s.images, 4);
    EXPECT_EQ(s.channels, 24);
    EXPECT_EQ(s.filters, 48);
    EXPECT_EQ(s.positions, 9);
    EXPECT_EQ(s.in_pixels, 900);
    EXPECT_EQ(s.out_pixels, 225);
  }
}

}  // namespace
}  // namespace foretrace
