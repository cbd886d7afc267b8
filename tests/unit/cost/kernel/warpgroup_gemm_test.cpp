#include "simulator/cost/kernel/warpgroup_gemm.h"

#include <gtest/gtest.h>

#include "simulator/cost/kernel/gemm_block.h"

namespace foretrace {
namespace {

constexpr double kEfficiency = 0.9;

GpuPeaks H100() { return *FindGpuPeaks("h100-sxm5-80gb"); }

KernelWork Gemm(int64_t m, int64_t n, int64_t k) {
  OperatorCall call;
  call.shape = LinearOp{m, n, k, false};
  call.dtype = DType::kBFloat16;
  return Kernels(call)[0];
}

double Us(std::string_view name, const KernelWork& work, double launched) {
  return WarpgroupGemmUs(H100(), Precision::kHalf, kEfficiency, WarpgroupTileOf(name), work,
                         launched);
}

TEST(WarpgroupGemm, NamesStateTileAndCluster) {
  const WarpgroupTile jet = WarpgroupTileOf("nvjet_sm90_tst_192x128_64x5_1x2_h_bz_coopB_bias_TNT");
  EXPECT_EQ(jet.rows, 192);
  EXPECT_EQ(jet.cols, 128);
  EXPECT_EQ(jet.depth, 64);
  EXPECT_EQ(jet.cluster_rows, 1);
  EXPECT_EQ(jet.cluster_cols, 2);
  EXPECT_TRUE(jet.shared);
  EXPECT_FALSE(jet.split);
  // cuBLAS 12.6 to 12.9, and Blackwell's, do not name the chip.
  const WarpgroupTile turns = WarpgroupTileOf("nvjet_hsh_64x8_64x16_4x1_v_bz_splitK_TNT");
  EXPECT_EQ(turns.cols, 8);
  EXPECT_EQ(turns.cluster_rows, 4);
  EXPECT_FALSE(turns.shared);
  EXPECT_TRUE(turns.split);
  const WarpgroupTile xmma = WarpgroupTileOf(
      "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize256x128x64_warpgroupsize2x1x1_execute_"
      "segment_k_off_kernel__5x_cublas");
  EXPECT_EQ(xmma.rows, 256);
  EXPECT_EQ(xmma.cols, 128);
  EXPECT_EQ(xmma.depth, 64);
  EXPECT_TRUE(xmma.shared);
}

TEST(WarpgroupGemm, OtherNamesHaveNoTile) {
  for (const std::string_view name :
       {"", "nvjet_", "nvjet_sm90_tst", "nvjet_sm90_tst_128x", "nvjet_sm90_tst_128x128",
        "nvjet_sm90_tst_128x128_64", "nvjet_tst_128x128_64x6", "nvjet_tst_9999x128_64x6_1x1_",
        "nvjet_tst_0x128_64x6_1x1_", "sm90_xmma_gemm_bf16_tilesize128x128_warpgroupsize1x1x1",
        "sm90_xmma_gemm_bf16_tilesize128x128x64", "volta_sgemm_128x64_nn",
        "sm80_xmma_gemm_f32f32_tilesize64x64x8_stage3_warpsize1x4x1_ffma"}) {
    EXPECT_FALSE(WarpgroupTileOf(name).known()) << name;
  }
}

// 8,192 x 3,072 by 768 in tiles of 128 x 256: 64 x 12 = 768 for 132 blocks are 6 rounds, each of
// 12 steps of 2 x 256 x 128 x 64 FLOP at 989.4 / 132 TFLOP/s (0.5596 us) and 93 cycles of 1.83 GHz
// (0.0508), and of 65,536 bytes of results at 17 a cycle (2.107): 6 x (12 x 0.6104 + 2.107) = 56.6,
// and 69.2 MB at 0.9 x 3,350 GB/s, 22.9, which hide: (56.6^4 + 22.9^4)^(1/4) = 57.0.
TEST(WarpgroupGemm, SharedTilesAreWrittenOneAfterTheOther) {
  const double us =
      Us("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT", Gemm(8192, 3072, 768), 132);
  EXPECT_NEAR(us - GemmStartUs(H100()), 57.0, 0.3);
}

// Warpgroups that take turns hide all but the last tile's results: 30 rounds of 12 steps of
// 2 x 128 x 128 x 64 FLOP (0.2798 us) and 93 cycles, then 32,768 bytes: 30 x 12 x 0.3306 + 1.05 =
// 120.1, and 158 MB of memory traffic, 52.4: 121.2.
TEST(WarpgroupGemm, WarpgroupsThatTakeTurnsWriteBesideEachOther) {
  const double us =
      Us("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_",
         Gemm(25088, 2304, 768), 120);
  EXPECT_NEAR(us - GemmStartUs(H100()), 121.2, 0.6);
}

// 768 x 768 by 16,384 has 36 tiles, 9 clusters of 2 x 2, for 27: three blocks share each reduction,
// 86 steps of 0.3306 us and 1.05 for results, 29.5, beside 17.5 for 52.9 MB, 30.4 in all. Without
// the name saying so one block takes all 256, 85.7: 2.82 times as long.
TEST(WarpgroupGemm, BlocksWithoutTilesShareAReduction) {
  const KernelWork work = Gemm(768, 768, 16384);
  const double split = Us("nvjet_sm90_tst_128x128_64x6_2x2_h_bz_splitK_NTT", work, 108);
  const double whole = Us("nvjet_sm90_tst_128x128_64x6_2x2_h_bz_NTT", work, 108);
  EXPECT_NEAR((whole - GemmStartUs(H100())) / (split - GemmStartUs(H100())), 2.82, 0.03);
}

// A launch that is not known is taken to fill the device.
TEST(WarpgroupGemm, WithoutALaunchTilesFillTheDevice) {
  const KernelWork work = Gemm(8192, 3072, 768);
  const std::string_view name = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT";
  EXPECT_DOUBLE_EQ(Us(name, work, 0), Us(name, work, 132));
}

// Large ones last what the board's power leaves, 720 TFLOP/s and 8 % more among lighter kernels.
TEST(WarpgroupGemm, LargeGemmsStayBelowWhatTheBoardSustains) {
  const double us =
      Us("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT", Gemm(16384, 16384, 16384), 132);
  EXPECT_GE(us, 2.0 * 16384 * 16384 * 16384 / (720e6 * 1.08) * 0.999);
}

}  // namespace
}  // namespace foretrace
