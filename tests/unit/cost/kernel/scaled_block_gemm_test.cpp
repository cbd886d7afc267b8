#include "simulator/cost/kernel/scaled_block_gemm.h"

#include <gtest/gtest.h>

#include "simulator/cost/kernel/analytic_gemm.h"
#include "tests/unit/cost/kernel/work_on_a100.h"

namespace foretrace {
namespace {

double UsOnH100(int64_t m, int64_t n, int64_t k) {
  LinearOp op{m, n, k};
  op.block_scaled = true;
  return AnalyticGemmUs(*FindGpuPeaks("h100-sxm5-80gb"), Precision::kFloat8,
                        Only(op, DType::kFloat8));
}

// 8,192 squared in blocks of 128 x 128: 4,096 blocks are 31.03 waves of 132, each of 64 steps of
// 170 + 128 x 4.2 cycles and 3,300 beside, at 1,830 MHz; 201 MB hide behind it.
TEST(ScaledBlockGemm, LargeOnesAreWavesOfBlocks) {
  const double us = 32 * (64 * (170 + 128 * 4.2) + 3300) / 1830;
  EXPECT_NEAR(UsOnH100(8192, 8192, 8192) / us, 1.01, 0.01);
}

// 129 rows are two blocks of 128, of which the second has one row: its 127 others are filled one by
// one. The H100 takes 21.4 us for 129 rows of 4,096 by 4,096, 12.4 us for 256.
TEST(ScaledBlockGemm, AbsentRowsAreFilled) {
  EXPECT_NEAR(UsOnH100(256, 4096, 4096), 12.4, 0.1 * 12.4);
  EXPECT_GT(UsOnH100(129, 4096, 4096), 1.25 * UsOnH100(256, 4096, 4096));
  EXPECT_LT(UsOnH100(64, 4096, 4096), UsOnH100(65, 4096, 4096));
}

// One wave of narrow blocks rather than two of wide ones: 1,024 columns are 64 blocks of 16.
// Columns of which 128 is no multiple meet two scales: 128 x 40 blocks beside 128 x 32.
TEST(ScaledBlockGemm, BlocksAreAsWideAsFillsAWave) {
  const double us = (32 * (170 + 16 * 4.2) + 3300) / 1830;
  EXPECT_NEAR(UsOnH100(128, 1024, 4096) / us, 1.1, 0.1);
  EXPECT_GT(UsOnH100(128, 5120, 65536), 1.35 * UsOnH100(128, 4096, 65536));
}

// Fewer than 32 rows lie across the block, of which 16 are the least: 128 rows of weights each.
TEST(ScaledBlockGemm, FewRowsAreTurned) {
  EXPECT_NEAR(UsOnH100(1, 8192, 1024), UsOnH100(16, 8192, 1024), 0.2);
  EXPECT_LT(UsOnH100(16, 16896, 128), 0.7 * UsOnH100(16, 17024, 128));
}

// No other part of the device takes a share of one block's reduction; Blackwell's tensor cores know
// scales.
TEST(ScaledBlockGemm, ReductionsAreWhole) {
  const GpuPeaks h100 = *FindGpuPeaks("h100-sxm5-80gb"), b200 = *FindGpuPeaks("b200-sxm");
  const KernelWork deep = Only(LinearOp{64, 128, 65536}, DType::kFloat8);
  EXPECT_GT(UsOnH100(64, 128, 65536), 2 * AnalyticGemmUs(h100, Precision::kFloat8, deep));
  KernelWork square = Only(LinearOp{8192, 8192, 8192}, DType::kFloat8);
  const double without = AnalyticGemmUs(b200, Precision::kFloat8, square);
  square.block_scaled = true;
  EXPECT_EQ(AnalyticGemmUs(b200, Precision::kFloat8, square), without);
}

}  // namespace
}  // namespace foretrace
