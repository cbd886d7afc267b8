#include "simulator/cost/kernel/grouped_gemms.h"

#include <gtest/gtest.h>

#include <cmath>

#include "simulator/cost/kernel/gemm_block.h"

namespace foretrace {
namespace {

constexpr std::string_view kUp =
    "bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_m128x16x32_cga1x1x1_16dp256b_rM_TN_"
    "transOut_schedP2x1x2x3_biasM_bN_tma_tmaOpt_clmp_swiGlu_dynBatch_sm100f";
constexpr std::string_view kDown =
    "bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_m128x16x32_cga1x1x1_16dp256b_rM_TN_"
    "transOut_schedP2x1x2x3_biasM_bN_tmaOpt_clmp_dynBatch_sm100f";

TEST(GroupedGemms, NamesStateBlocksAndTypes) {
  const auto up = GroupedKernelOf(kUp);
  ASSERT_TRUE(up.has_value());
  EXPECT_EQ(up->rows, 128);
  EXPECT_EQ(up->tokens, 16);
  EXPECT_EQ(up->depth, 256);
  EXPECT_EQ(up->buffers, 6);
  EXPECT_DOUBLE_EQ(up->weight_bits, 4.25);
  EXPECT_DOUBLE_EQ(up->token_bits, 8.25);
  EXPECT_TRUE(up->gated && up->dynamic);
  const auto down = GroupedKernelOf(kDown);
  ASSERT_TRUE(down.has_value());
  EXPECT_DOUBLE_EQ(down->result_bits, 16);
  EXPECT_FALSE(down->gated);
  // Tokens first, one type for both.
  const auto plain =
      GroupedKernelOf("bmm_Fp16_E4m3_Fp32_t64x128x32_s4_et64x32_m64x128x32_cga1x1x1");
  ASSERT_TRUE(plain.has_value());
  EXPECT_EQ(plain->rows, 128);
  EXPECT_EQ(plain->tokens, 64);
  EXPECT_EQ(plain->buffers, 4);
  EXPECT_DOUBLE_EQ(plain->weight_bits, 8);
}

TEST(GroupedGemms, OtherNamesAreNotKnown) {
  for (const std::string_view name :
       {"", "bmm_", "bmm_Fp16_E4m3_Fp32_t64x128_s4_x", "bmm_Fp16_Int9_Fp32_t64x128x32_s4_x",
        "bmm_Fp16_E4m3_Fp32_t0x128x32_s4_x", "bmm_Fp16_E4m3_Fp32_t64x99999x32_s4_x",
        "gemm_Fp16_E4m3_Fp32_t64x128x32_s4_x", "bmm_Fp16_E4m3E4m3x_Fp32_t64x128x32_s4_x"}) {
    EXPECT_FALSE(GroupedKernelOf(name).has_value()) << name;
  }
}

TEST(GroupedGemms, ExpectedBlocks) {
  // A block a token: as many as there are pairs.
  EXPECT_NEAR(ExpectedTokenBlocks(300, 20, 1), 300, 1e-6);
  // A block holds all that an expert is given: one for each expert that is given any, 1 - e^-mean.
  EXPECT_NEAR(ExpectedTokenBlocks(40, 20, 1000), 20 * (1 - std::exp(-2.0)), 1e-6);
  // Both sides of where the distribution is no longer summed.
  EXPECT_NEAR(ExpectedTokenBlocks(9.99e3 * 8, 8, 16), 8 * (9.99e3 / 16 + 15.0 / 32), 0.1);
  EXPECT_NEAR(ExpectedTokenBlocks(1.01e4 * 8, 8, 16), 8 * (1.01e4 / 16 + 15.0 / 32), 0.1);
  EXPECT_EQ(ExpectedTokenBlocks(0, 8, 16), 0);
}

TEST(GroupedGemms, SizesFollowFromThePair) {
  const GpuPeaks device = *FindGpuPeaks("b200");
  // 148 multiprocessors hold a block each. The second: 8,208 blocks over 24 of 128 rows for a width
  // of 3,072 are 342 of 16 tokens; so that the first's 2,736 are 8 of 128 rows, 512 gated results.
  // 342 x 16 - 128 x 15 + 15 = 3,567 pairs at most: 4 experts for each of 888 tokens.
  const std::vector<SimTime> times = GroupedGemmTimes(
      device, 1, std::vector<GroupedLaunch>{{kUp, 18486}, {kDown, 55459}}, 888, 3072, 128);
  ASSERT_EQ(times.size(), 2U);
  const double filled = ExpectedTokenBlocks(4 * 888, 128, 16);
  const double start = GemmStartUs(device), bytes_per_us = 7.672e6;
  const double up = 8 * filled * ((128 * 4.25 + 16 * 8.25) * 3072 + 128 * 16 * 8.25 / 2) / 8;
  EXPECT_NEAR(times[0].us(), start + up / bytes_per_us, 0.01);
  const double down = 24 * filled * ((128 * 4.25 + 16 * 8.25) * 512 + 128 * 16 * 16) / 8;
  EXPECT_NEAR(times[1].us(), start + down / bytes_per_us, 0.01);
}

TEST(GroupedGemms, WhatIsNoPairIsLeftAlone) {
  const GpuPeaks device = *FindGpuPeaks("b200");
  const auto times = [&](std::vector<GroupedLaunch> launches, int64_t experts) {
    return GroupedGemmTimes(device, 1, launches, 888, 3072, experts).size();
  };
  EXPECT_EQ(times({{kUp, 18486}}, 128), 0U);
  EXPECT_EQ(times({{kUp, 0}, {kDown, 55459}}, 128), 0U);
  EXPECT_EQ(times({{kUp, 18486}, {kDown, 0}}, 128), 0U);
  EXPECT_EQ(times({{kUp, 18486}, {"gemm", 55459}}, 128), 0U);
  EXPECT_EQ(times({{kUp, 18486}, {kDown, 55459}}, 0), 0U);
}

}  // namespace
}  // namespace foretrace
