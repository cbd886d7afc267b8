#include "simulator/cost/kernel/recorded_convolution.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string_view>
#include <vector>

#include "simulator/cost/kernel/simt_convolution.h"
#include "simulator/cost/kernel/tiled_convolution.h"

namespace foretrace {
namespace {

constexpr std::string_view kFirst =
    "sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nchwkcrs_nchw_";
constexpr std::string_view kGemm =
    "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_32x3_tn_align4>(cutlass_80)";
constexpr std::string_view kInputEngine =
    "void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>(int, int, int)";
constexpr std::string_view kFilterEngine =
    "void cudnn::cnn::wgrad_alg0_engine<float, 128, 6, 7, 3, 3, 5, false, 512>(int, int, int)";

GpuPeaks H100() { return *FindGpuPeaks("h100-sxm5-80gb"); }

double Trip(const GpuPeaks& device) {  // 700 cycles
  return 700.0 / (device.accelerator.units[0].clock_hz * 1e-6);
}

TEST(ConvolutionNames, EnginesNameTheirBlockByLogarithms) {
  const ConvolutionKernel input = ConvolutionKernelOf(kInputEngine);
  EXPECT_EQ(input.part, ConvolutionPart::kEngine);
  EXPECT_EQ(input.pass, ConvolutionPass::kInputGradient);
  EXPECT_EQ(input.block.cols, 64);  // channels
  EXPECT_EQ(input.block.rows, 32);
  EXPECT_EQ(input.block.depth, 8);
  EXPECT_EQ(input.block.warps, 2);  // 8 x 8 threads
  const ConvolutionKernel filters = ConvolutionKernelOf(kFilterEngine);
  EXPECT_EQ(filters.pass, ConvolutionPass::kWeightGradient);
  EXPECT_EQ(filters.block.rows, 128);
  EXPECT_EQ(filters.block.cols, 64);
  EXPECT_EQ(filters.block.warps, 8);  // 8 x 32 threads
  // Sides of 2^9, and what is not finished: not known rather than guessed.
  for (const std::string_view name :
       {"dgrad_engine<float, 512, 9, 5, 3, 3, 3, false>", "dgrad_engine<float, 512, 6",
        "dgrad_engine<", "wgrad_alg0_engine<float, 128, a, 5, 3, 3, 3, false>"}) {
    EXPECT_EQ(ConvolutionKernelOf(name).part, ConvolutionPart::kUnknown) << name;
  }
}

TEST(ConvolutionNames, TilesAndBlocks) {
  const auto of = [](std::string_view name) { return ConvolutionKernelOf(name); };
  const ConvolutionKernel simt =
      of("sm80_xmma_wgrad_implicit_gemm_indexed_f32f32_f32f32_f32_nhwckrsc_nhwc_tilesize32x32x8_"
         "stage3_"
         "warpsize1x2x1_g1_ffma_execute_kernel__5x_cudnn");
  EXPECT_EQ(simt.part, ConvolutionPart::kBlocks);
  EXPECT_TRUE(simt.channels_last);
  EXPECT_EQ(simt.block.warps, 2);
  const ConvolutionKernel strided =
      of("sm90_xmma_dgrad_implicit_gemm_indexed_f32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize256x64x32_"
         "warpgroupsize1x1x1_g1_strided_execute_kernel__5x_cudnn");
  EXPECT_EQ(strided.part, ConvolutionPart::kTile);
  EXPECT_TRUE(strided.scattered);
  EXPECT_FALSE(strided.by_warps);
  EXPECT_FALSE(strided.multiplies);
  EXPECT_EQ(strided.block.rows, 256);
  const ConvolutionKernel mangled = of(
      "_ZN17cutlass__5x_cudnn6KernelINS_4conv6kernel23ImplicitGemmConvolutionINS1_11threadblock22"
      "ImplicitGemmMultistageINS_4gemm9GemmShapeILi64ELi128ELi32EEENS4_52Conv2dWgradOutputGradient"
      "TileAccessIteratorOptimizedINS_11MatrixShapeILi64ELi32EEENS_10bfloat16_tENS_9transform");
  EXPECT_EQ(mangled.part, ConvolutionPart::kTile);
  EXPECT_EQ(mangled.pass, ConvolutionPass::kWeightGradient);
  EXPECT_EQ(mangled.block.cols, 128);
  EXPECT_EQ(mangled.block.depth, 32);
  EXPECT_TRUE(of(kGemm).multiplies);
  EXPECT_EQ(of("void fft2d_r2c_32x32<float, false, 1u, false>(float2*)").part,
            ConvolutionPart::kFourierTransform);
  EXPECT_EQ(of("ncclDevKernel_AllReduce_Sum_f32_RING_LL").part, ConvolutionPart::kUnknown);
}

TEST(TiledGemm, ATileTakesOnePositionOfTheFilterAtAStep) {
  // 4 images of 3 x 224 x 224 by 768 filters of 16 x 16, stride 16 (ViT): 784 pixels of results are
  // 4 by 12 tiles of 256 x 64. Three channels fill three of the tile's 32 at each of 256 positions.
  TiledGemm gemm;
  gemm.tile = {256, 64, 32};
  gemm.m = 784;
  gemm.n = 768;
  gemm.k = 3 * 256;
  gemm.positions = 256;
  const GpuPeaks device = H100();
  const auto us = [&] { return TiledGemmUs(device, Precision::kHalf, gemm); };
  gemm.k = 0;
  gemm.positions = 1e-9;
  const double start = us();
  gemm.k = 3 * 256;
  gemm.positions = 256;
  const double block = us() - start;
  // 48 blocks on 132 multiprocessors, each of 989.4 / 132 TFLOP/s and no more.
  EXPECT_GT(block, 256.0 * 2 * 256 * 64 * 32 / (989.4e6 / 132));
  gemm.k = 32 * 256;  // as long with all of the 32
  EXPECT_NEAR(us() - start, block, 1e-9);
  gemm.by_warps = true;
  EXPECT_NEAR(us() - start, block / 0.629, 1e-3 * block);
  gemm.m *= 4;  // 13 by 12 tiles: two for some multiprocessors
  EXPECT_NEAR(us() - start, 2 * block / 0.629, 1e-3 * block);
  gemm.shared = true;  // but not where their reductions are cut up: 49 by 3 on 132
  EXPECT_NEAR(us() - start, 147.0 / 132 * block / 0.629, 1e-3 * block);
}

TEST(TiledGemm, OnlyTf32HasToLieAlongTheReduction) {
  TiledGemm gemm;
  gemm.tile = {128, 128, 32};
  gemm.m = gemm.n = 1024;
  gemm.k = 1 << 20;
  TiledGemm across = gemm;
  across.transposed = true;
  const GpuPeaks device = H100();
  EXPECT_NEAR(TiledGemmUs(device, Precision::kTensorFloat32, across) /
                  TiledGemmUs(device, Precision::kTensorFloat32, gemm),
              2, 1e-2);
  EXPECT_EQ(TiledGemmUs(device, Precision::kHalf, across),
            TiledGemmUs(device, Precision::kHalf, gemm));
  across.by_warps = gemm.by_warps = true;  // instructions of warps take either
  EXPECT_EQ(TiledGemmUs(device, Precision::kTensorFloat32, across),
            TiledGemmUs(device, Precision::kTensorFloat32, gemm));
}

TEST(TiledGemm, TransformsOfLayoutsTakeFourTripsAWaveOrTheirBytes) {
  // 700 cycles a trip at 1,830 MHz, 800 to start; less than a wave takes one.
  const GpuPeaks device = H100();
  EXPECT_NEAR(LayoutTransformUs(device, 10, 2, 1), (800 + 10 * 4 * 700) / 1830.0, 1e-6);
  EXPECT_NEAR(LayoutTransformUs(device, 0.2, 2, 1), (800 + 4 * 700) / 1830.0, 1e-6);
  // 132 multiprocessors hold 8 blocks each, which read and write 32 x 32 floats.
  const double moved = 2.0 * 132 * 8 * 32 * 32 * 4 / (3350e3 * 0.88);
  EXPECT_NEAR(LayoutTransformUs(device, 10, 4, 1), 800 / 1830.0 + 10 * moved, 1e-2);
}

// Blocks lie along pixels first: those of 9 or fewer are filters, of more the last is half full.
TEST(TiledGemm, BlocksOfPixelsAreFilledInPart) {
  const LaunchAttr filters = {{1, 16, 512}, {256, 1, 1}}, images = {{2, 64, 32}, {256, 1, 1}};
  EXPECT_DOUBLE_EQ(PresentPixels(&filters), 9.0 / 32);
  EXPECT_DOUBLE_EQ(PresentPixels(&images), 0.75);
  EXPECT_EQ(PresentPixels(nullptr), 1);
  const GpuPeaks device = H100();
  EXPECT_LT(LayoutTransformUs(device, 100, 4, 0.5), 0.7 * LayoutTransformUs(device, 100, 4, 1));
}

TEST(SimtConvolution, AMultiprocessorTakesProductsThenOperands) {
  // Blocks of 128 x 32 with four warps, 8 x 4 results a thread: as many as there are
  // multiprocessors, times three.
  const GpuPeaks device = H100();
  SimtGemms gemms;
  gemms.block.rows = 128;
  gemms.block.cols = 32;
  gemms.block.depth = 8;
  gemms.block.stages = 3;
  gemms.block.warps = 4;
  gemms.m = 128 * device.sms * 3;
  gemms.n = 32;
  gemms.k = 8000;
  const double products = 128.0 * 32 * 8;
  const double busy = 2 * products / (device.fp32_tflops * 1e6 / device.sms) +
                      products * 2.4 / (32.0 / 12) / 128 / 1830;
  EXPECT_NEAR(SimtGemmsUs(device, gemms), 1000 * 3 * busy, 0.02 * 3000 * busy);
  // One block alone waits for its operands.
  gemms.m = 128;
  EXPECT_NEAR(SimtGemmsUs(device, gemms), 1000 * 600 / 1830.0, 6);
}

TEST(RecordedConvolution, TheInputsGradientComesFirst) {
  const GpuPeaks device = H100();
  const Conv2dOp op{64, 1024, 14, 14, 256, 1, 1, 14, 14};
  const KernelList works = Kernels({op, DType::kFloat32, Direction::kBackward});
  ASSERT_EQ(works.size(), 2u);
  constexpr std::string_view kSum =
      "void cudnn::cnn::reduce_wgrad_nchw_helper<float, float>(void*)";
  const std::vector<std::string_view> names = {kGemm, kGemm, kSum};
  RecordedConvolution convolution(device, 0.9, op, works, names);
  const auto input = convolution.Next({kGemm, 7758});
  const auto filters = convolution.Next({kGemm, 7758});
  const auto sum = convolution.Next({kSum, 1000});
  ASSERT_TRUE(input && filters && sum);
  // 64 images leave a gradient of the filters each, 1 MB, which is written and read again.
  EXPECT_GT(sum->us(), 64 * 1024 * 256 * 4 / (3350e3 * 0.9));
  // 8 by 2 tiles an image of either; 8 steps along 256 filters, 7 along 196 pixels.
  RecordedConvolution other(device, 0.9, op, works, {});
  EXPECT_EQ(*other.Next({kGemm, 7758}), *input);
  EXPECT_LT(*other.Next({kGemm, 7758}), *filters);  // nobody adds up
}

TEST(RecordedConvolution, EnginesByTheirBlocks) {
  // A pixel's gradients: 16 images of 7 blocks of 32 pixels by 4 of 64 channels, 128 steps along
  // 1,024 filters. With 3 x 3 positions nine times as many.
  const GpuPeaks device = H100();
  const auto us = [&](int64_t side) {
    const Conv2dOp op{16, 256, 14, 14, 1024, side, side, 14, 14};
    const KernelList works = Kernels({op, DType::kFloat32, Direction::kBackward});
    RecordedConvolution convolution(device, 0.9, op, works, {});
    return convolution.Next({kInputEngine, 1000})->us();
  };
  const double products = 64.0 * 32 * 8;
  const double step = 2 * products / (device.fp32_tflops * 1e6 / device.sms) +
                      products * 2.4 / (32.0 / 12) / 128 / 1830;
  const double blocks = 16.0 * 7 * 4 / device.sms;
  const double memory = (16.0 * 196 * (256 + 1024) + 1024 * 256) * 4 / (3350e3 * 0.9);
  const double start = 800 / 1830.0 + 4 * Trip(device);
  EXPECT_NEAR(us(1), start + blocks * (128 * step + 900 / 1830.0) + memory, 0.2);
  EXPECT_NEAR(us(3) - us(1), 8 * (us(1) - start - memory), 0.02 * us(3));
}

// An image of 64 x 128 x 28 x 28 and 9 x 128 x 128 filters come in, as many results go out; without
// launches the two that come in share what they move.
TEST(RecordedConvolution, TransformsWithoutLaunchesMoveTensors) {
  const GpuPeaks device = H100();
  const Conv2dOp op{64, 128, 28, 28, 128, 3, 3, 28, 28};
  const KernelList works = Kernels({op, DType::kFloat32, Direction::kForward});
  constexpr std::string_view kIn =
      "void cudnn::engines_precompiled::nchwToNhwcKernel<float, float>";
  constexpr std::string_view kOut =
      "void cudnn::engines_precompiled::nhwcToNchwKernel<float, float>";
  const std::vector<std::string_view> names = {kIn, kIn, kOut};
  RecordedConvolution convolution(device, 0.9, op, works, names);
  const double start = (800 + 2 * 700) / 1830.0, image = 64.0 * 128 * 784 * 4 * 2 / (3350e3 * 0.9);
  const double filters = 9.0 * 128 * 128 * 4 * 2 / (3350e3 * 0.9);
  EXPECT_NEAR(convolution.Next({kIn, 0})->us(), start + (image + filters) / 2, 1e-3);
  EXPECT_NEAR(convolution.Next({kOut, 0})->us(), start + image, 1e-3);
}

// Three channels in 16 bits are padded to eight, of 256 images of 224 x 224 first, 33 instructions
// an element, then of 64 filters of 7 x 7.
TEST(RecordedConvolution, ImagesArePaddedFirstThenFilters) {
  const GpuPeaks device = H100();
  const Conv2dOp op{256, 3, 224, 224, 64, 7, 7, 112, 112};
  const KernelList works = Kernels({op, DType::kBFloat16, Direction::kForward});
  constexpr std::string_view kPad =
      "void nhwcAddPaddingKernel<__nv_bfloat16, __nv_bfloat16, float, true, x>(int)";
  const std::vector<std::string_view> names = {kPad, kPad};
  RecordedConvolution convolution(device, 1, op, works, names);
  const auto next = [&] { return convolution.Next({.name = kPad})->us(); };
  const double start = next() - 256.0 * 224 * 224 * 8 * 33 / (64 * 132 * 1.83e3);
  EXPECT_GT(start, 0);
  EXPECT_LT(start, 3);
  EXPECT_NEAR(next(), start + 64.0 * 49 * 8 * 33 / (64 * 132 * 1.83e3), 1e-3);
}

// Ampere's kernels on Hopper look up pixels: 0.85 of what their GEMMs reach, half in gradients of
// filters; on Ampere as before.
TEST(RecordedConvolution, KernelsForAmpereLookUpPixels) {
  constexpr std::string_view kTile =
      "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_bf16_s16816fprop_optimized_bf16_256x64_32x4_"
      "nhwc_align8>(x)";
  const Conv2dOp op{128, 256, 56, 56, 256, 3, 3, 56, 56};
  const KernelList works = Kernels({op, DType::kBFloat16, Direction::kForward});
  const auto us = [&](const char* device) {
    const GpuPeaks peaks = *FindGpuPeaks(device);
    const std::vector<std::string_view> names = {kTile};
    RecordedConvolution convolution(peaks, 1, op, works, names);
    return convolution.Next({.name = kTile})->us();
  };
  TiledGemm gemm;
  gemm.tile = {256, 64, 32};
  gemm.m = 128.0 * 56 * 56;
  gemm.n = 256;
  gemm.k = 256 * 9;
  gemm.positions = 9;
  gemm.bytes = static_cast<double>(works[0].total_bytes());
  gemm.by_warps = true;
  const GpuPeaks a100 = *FindGpuPeaks("a100-sxm4-80gb");
  EXPECT_NEAR(us("a100-sxm4-80gb"), TiledGemmUs(a100, Precision::kHalf, gemm), 1e-3);
  gemm.reached = 0.85;
  EXPECT_NEAR(us("h100-sxm5-80gb"), TiledGemmUs(H100(), Precision::kHalf, gemm), 1e-3);
}

TEST(RecordedConvolution, WhatItDoesNotKnowItDoesNotGuess) {
  const Conv2dOp op{16, 256, 14, 14, 1024, 1, 1, 14, 14};
  const KernelList works = Kernels({op, DType::kFloat32, Direction::kForward});
  const GpuPeaks device = H100();
  RecordedConvolution convolution(device, 0.9, op, works, {});
  EXPECT_FALSE(
      convolution.Next({"volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1", 9}));
  EXPECT_FALSE(convolution.Next({kFirst, 9}));  // no tile
  constexpr int64_t kHuge = int64_t{1} << 61;
  const Conv2dOp huge{kHuge, kHuge, kHuge, kHuge, kHuge, kHuge, kHuge, kHuge, kHuge};
  const KernelList huge_works = Kernels({huge, DType::kFloat32, Direction::kBackward});
  for (const std::string_view name : {kInputEngine, kFilterEngine, kGemm}) {
    EXPECT_FALSE(RecordedConvolution(device, 0.9, huge, huge_works, {}).Next({name, 9})) << name;
  }
}

}  // namespace
}  // namespace foretrace
