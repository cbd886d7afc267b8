#include "simulator/cost/kernel/gemm_block.h"

#include <gtest/gtest.h>

namespace foretrace {
namespace {

GpuPeaks Device(std::string_view name) { return *FindGpuPeaks(name); }

KernelWork Gemm(int64_t m, int64_t n, int64_t k) {
  OperatorCall call;
  call.shape = LinearOp{m, n, k, false};
  call.dtype = DType::kFloat32;
  return Kernels(call)[0];
}

TEST(GemmBlock, NamesStateBlockDepthAndStages) {
  const GemmBlock cutlass =
      GemmBlockOf("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_256x128_32x3_nt_align1>(x)");
  EXPECT_EQ(cutlass.rows, 256);
  EXPECT_EQ(cutlass.cols, 128);
  EXPECT_EQ(cutlass.depth, 32);
  EXPECT_EQ(cutlass.stages, 3);
  const GemmBlock sliced = GemmBlockOf("ampere_sgemm_32x128_sliced1x4_tn");
  EXPECT_EQ(sliced.rows, 32);
  EXPECT_EQ(sliced.depth, 32);
  EXPECT_EQ(sliced.stages, 0);
  EXPECT_EQ(GemmBlockOf("volta_sgemm_128x64_nn").depth, 8);
  EXPECT_EQ(GemmBlockOf("cudnn_volta_scudnn_128x64_relu_xregs_large_nn_v1").cols, 64);
}

// cuBLAS's for tensor cores state depth and stages last.
TEST(GemmBlock, StagesBehindHowOperandsAreLoaded) {
  for (const std::string_view name :
       {"ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn",
        "ampere_fp16_s16816gemm_fp16_128x256_ldg8_relu_f2f_stages_64x3_nn",
        "ampere_h16816gemm_128x256_ldg8_stages_64x3_nt",
        "ampere_fp16_s16816gemm_fp16_128x256_sliced1x2_ldg8_f2f_stages_64x3_tn"}) {
    const GemmBlock block = GemmBlockOf(name);
    EXPECT_EQ(block.rows, 128) << name;
    EXPECT_EQ(block.cols, 256) << name;
    EXPECT_EQ(block.depth, 64) << name;
    EXPECT_EQ(block.stages, 3) << name;
  }
  EXPECT_EQ(GemmBlockOf("volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn").depth, 32);
}

// 4,096 x 16,384 by 4,096 in 16 bits takes what 60 to 100 % of the peak of 312 TFLOP/s give.
TEST(GemmBlock, LargeGemmsOfCublasRunNearThePeak) {
  OperatorCall call;
  call.shape = LinearOp{4096, 16384, 4096, false};
  call.dtype = DType::kBFloat16;
  const KernelWork work = Kernels(call)[0];
  const GpuPeaks a100 = Device("a100-sxm4-80gb");
  const GemmBlock block =
      GemmBlockOf("ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn");
  const double us =
      BlockedGemmUs(a100, Precision::kHalf, 0.85, BlockedGemmOf(a100, block, work, 2048 / 108.0));
  const double at_peak_us = 2.0 * 4096 * 16384 * 4096 / 312e6;
  EXPECT_GT(us, at_peak_us);
  EXPECT_LT(us, at_peak_us / 0.6);
}

TEST(GemmBlock, OtherKernelsAreNotKnown) {
  for (const std::string_view name :
       {"", "sgemm_", "volta_sgemm_7x9_nn", "volta_sgemm_99999x64_nn", "volta_sgemm_128x",
        "cudnn_volta_scudnn_winograd_128x128_ldg1", "sm90_xmma_gemm_s16816gemm_128x128",
        "void reduce_kernel<512, 1>", "gemmSN_TN_kernel<float, 128, 16>"}) {
    EXPECT_FALSE(GemmBlockOf(name).known()) << name;
  }
}

TEST(GemmBlock, SharedMemoryAndRegistersLimitBlocks) {
  const GpuPeaks a100 = Device("a100-sxm4-40gb");
  // 98,304 bytes of 164 KB; 2 x 128 x 64 results a thread would leave room for four.
  EXPECT_EQ(ResidentBlocks(a100, {64, 64, 32, 6}, 4), 1);
  EXPECT_EQ(ResidentBlocks(a100, {128, 64, 8, 0}, 4), 4);
  EXPECT_EQ(ResidentBlocks(a100, {256, 128, 8, 0}, 4), 1);
}

// trace_diff/control, A100: median of kernels that nothing ran beside.
TEST(GemmBlock, MeasuredOnA100) {
  const GpuPeaks a100 = Device("a100-sxm4-40gb");
  struct Case {
    int64_t m, n, k;
    std::string_view name;
    double waves;  // 108 multiprocessors, blocks resident by occupancy
    int64_t load_elements;
    double us;
  };
  for (const Case& c : {
           Case{1024, 2048, 1024, "s1688gemm_256x128_16x3_nn_align4", 64 / 216.0, 4, 59},
           Case{1024, 256, 1440, "s1688gemm_64x64_32x6_tn_align4", 64 / 108.0, 4, 22},
           Case{1024, 128, 9375, "s1688gemm_64x64_32x6_nn_align1", 96 / 108.0, 1, 112},
           Case{2048, 4864, 1024, "s1688gemm_256x128_32x3_nt_align4", 384 / 108.0, 4, 184},
       }) {
    KernelWork work = Gemm(c.m, c.n, c.k);
    work.load_elements = c.load_elements;
    const BlockedGemm gemm = BlockedGemmOf(a100, GemmBlockOf(c.name), work, c.waves);
    const double us = BlockedGemmUs(a100, Precision::kTensorFloat32, 0.85, gemm);
    EXPECT_NEAR(us / c.us, 1, 0.15) << c.name << " " << us;
  }
}

TEST(GemmBlock, SplitFollowsFromTheLaunch) {
  const GpuPeaks a100 = Device("a100-sxm4-40gb");
  const GemmBlock block = GemmBlockOf("s1688gemm_64x64_32x6_nn_align4");
  const KernelWork work = Gemm(1024, 128, 9375);  // 32 blocks of results
  EXPECT_EQ(BlockedGemmOf(a100, block, work, 96 / 108.0).split, 3);
  EXPECT_EQ(BlockedGemmOf(a100, block, work, 0).split, 1);
  // No more parts than steps.
  EXPECT_EQ(BlockedGemmOf(a100, block, Gemm(64, 64, 32), 1000).split, 1);
}

// OWLv2 on H100: 5 x 3072 by 3072 x 768 launches (8, 2, 5) blocks, of which 12 of each 16 have
// results.
TEST(GemmBlock, BlocksThatCompleteABandAreNoParts) {
  const GpuPeaks h100 = Device("h100-sxm5-80gb");
  const GemmBlock block = GemmBlockOf(
      "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_64x6_tn_align8>");
  OperatorCall call;
  call.shape = LinearOp{5, 768, 3072, false};
  call.dtype = DType::kBFloat16;
  const KernelWork work = Kernels(call)[0];
  EXPECT_EQ(BlockedGemmOf(h100, block, work, 80 / 264.0).split, 5);
  call.shape = LinearOp{5, 768, 768, false};
  EXPECT_EQ(BlockedGemmOf(h100, block, Kernels(call)[0], 16 / 264.0).split, 1);
}

TEST(GemmBlock, XmmaStatesWarps) {
  const GemmBlock block = GemmBlockOf(
      "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x32x8_stage3_warpsize1x2x1_ffma_aligna4");
  EXPECT_EQ(block.rows, 64);
  EXPECT_EQ(block.cols, 32);
  EXPECT_EQ(block.depth, 8);
  EXPECT_EQ(block.stages, 3);
  EXPECT_EQ(block.warps, 2);
  for (const std::string_view name :
       {"sm80_xmma_gemm_", "sm80_xmma_gemm_x_tilesize64x32", "sm80_xmma_gemm_x_tilesize64x32x8",
        "sm80_xmma_gemm_x_tilesize7x9x8_stage3"}) {
    EXPECT_FALSE(GemmBlockOf(name).known()) << name;
  }
  // 32 results a thread: 48 + 2.25 x 32 = 120 registers of 64 threads, 8 blocks of 65,536.
  EXPECT_EQ(ResidentBlocks(Device("h100-sxm5-80gb"), block, 4), 8);
}

// One block of 32 x 32 alone, whose two warps leave half of the lanes without work: more steps take
// the product's time twice, and 200 cycles each.
TEST(GemmBlock, FewWarpsUseAPartOfTheLanes) {
  const GpuPeaks a100 = Device("a100-sxm4-80gb");
  BlockedGemm gemm;
  gemm.block = {32, 32, 8, 3};
  gemm.blocks = 1;
  const auto step_us = [&](int64_t warps) {
    gemm.block.warps = warps;
    gemm.depth = 1000 * 8;
    const double more = BlockedGemmUs(a100, Precision::kFloat32, 1, gemm);
    gemm.depth = 500 * 8;
    return (more - BlockedGemmUs(a100, Precision::kFloat32, 1, gemm)) / 500;
  };
  EXPECT_NEAR(step_us(2) - step_us(4), step_us(4) - 200 / 1410.0, 1e-6);
  EXPECT_NEAR(step_us(8), step_us(4), 1e-9);
}

// Operands of 2 bytes that lie along the reduction.
TEST(GemmBlock, HalvesShareWordsOfSharedMemory) {
  const std::string_view tn = "cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_tn_align1",
                         nt = "cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_nt_align1";
  EXPECT_TRUE(GemmBlockOf(tn).along_depth);
  EXPECT_FALSE(GemmBlockOf(nt).along_depth);
  OperatorCall call;
  call.shape = LinearOp{8192, 50257, 768, false};
  call.dtype = DType::kBFloat16;
  KernelWork work = Kernels(call)[0];
  work.load_elements = 1;
  const GpuPeaks h100 = Device("h100-sxm5-80gb");
  const auto us = [&](std::string_view name) {
    return BlockedGemmUs(h100, Precision::kHalf, 0.9,
                         BlockedGemmOf(h100, GemmBlockOf(name), work, 0));
  };
  // Loads are all that two blocks of a multiprocessor wait for.
  EXPECT_NEAR(us(tn) / us(nt), 1.25, 0.02);
}

// 4,096 x 4,096 by 4,096 in fp32 by blocks of 128 x 128, of 4 warps with 128 results a thread. The
// H100 has 128 lanes a multiprocessor: of its 66.9 TFLOP/s 1 / (1 + 3.45 / sqrt(128)) is reached,
// 51.3 (2,680 us), the A100's 64 leave 0.92 x 64 / 66.75 of 19.5.
TEST(GemmBlock, OtherInstructionsTakeTurnsWhereLanesAreAsManyAsThreadsStarted) {
  const GemmBlock block = GemmBlockOf(
      "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_aligna4");
  const KernelWork work = Gemm(4096, 4096, 4096);
  const double flop = 2.0 * 4096 * 4096 * 4096;
  const auto tflops = [&](std::string_view device) {
    const GpuPeaks gpu = Device(device);
    return flop / 1e6 /
           BlockedGemmUs(gpu, Precision::kFloat32, 0.85, BlockedGemmOf(gpu, block, work, 0));
  };
  // 1,024 blocks on 132 multiprocessors: 7.76 rounds of 8.
  EXPECT_NEAR(tflops("h100-sxm5-80gb"), 51.3 * 7.76 / 8, 2);
  EXPECT_GT(tflops("a100-sxm4-80gb") / 19.5, 0.8);
}

// TimeSformer's attention over 8 frames: 37,632 products of 8 x 64 by 8 in blocks of 16 x 16,
// 150,528 of them, of which an H100 hands out 0.9 a cycle: 91 us, where their bytes take 27.
TEST(GemmBlock, SmallBlocksAreHandedOutOneByOne) {
  const GpuPeaks h100 = Device("h100-sxm5-80gb");
  OperatorCall call;
  call.shape = BatchedMatmulOp{37632, 8, 64, 8};
  call.dtype = DType::kBFloat16;
  const KernelWork work = Kernels(call)[0];
  const GemmBlock block =
      GemmBlockOf("cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_32x1_nn_align8");
  const double us = BlockedGemmUs(h100, Precision::kHalf, 0.9, BlockedGemmOf(h100, block, work, 0));
  EXPECT_NEAR(us - GemmStartUs(h100), 91.4, 2);
}

}  // namespace
}  // namespace foretrace
