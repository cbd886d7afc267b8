#include "simulator/cost/kernel/maxwell_gemm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "simulator/cost/kernel/analytic_gemm.h"
#include "tests/unit/cost/kernel/work_on_a100.h"

namespace foretrace {
namespace {

double UsOnP100(const KernelWork& work) {
  return AnalyticGemmUs(*FindGpuPeaks("p100-pcie"), Precision::kFloat32, work);
}

KernelWork WithBias(int64_t m, int64_t n, int64_t k) { return Only(LinearOp{m, n, k, true}); }

TEST(MaxwellGemm, RunOnDevicesBeforeVolta) {
  EXPECT_TRUE(RunsMaxwellGemms(*FindGpuPeaks("p100-pcie")));
  EXPECT_TRUE(RunsMaxwellGemms(*FindGpuPeaks("p4")));
  EXPECT_FALSE(RunsMaxwellGemms(*FindGpuPeaks("v100-pcie-32gb")));
  EXPECT_FALSE(RunsMaxwellGemms(*FindGpuPeaks("mi250")));
}

// Many blocks: threads of 4 x 4 results, of which 3.45 / 4 other instructions go beside each
// product: 1 / hypot(1, 0.8625) of 0.97 of 9.5 TFLOP/s, as NeuSight's P100 reaches: 8,192 rows,
// 4,096 columns, 4,096 to sum over took 38.1 ms. Without a bias DeepBench's takes 8.8 TFLOP/s:
// 7,000 rows 26.3 ms.
TEST(MaxwellGemm, AddingABiasHasNarrowKernels) {
  const KernelWork work = WithBias(8192, 4096, 4096);
  const double rate = 9.5e6 * 0.97 / std::hypot(1, 0.8625);
  EXPECT_NEAR(UsOnP100(work) * rate / work.flop.count(), 1, 0.02);
  EXPECT_NEAR(UsOnP100(work), 38100, 0.05 * 38100);
  EXPECT_NEAR(UsOnP100(Only(LinearOp{7000, 4096, 4096})), 26300, 0.05 * 26300);
}

// 32 x 24 blocks of 64 x 64 are 13.7 of each of 56 multiprocessors: NeuSight's ran that kernel,
// whose threads have 8 x 8 results, at 7.7 TFLOP/s (1,256 us); of 32 x 32 blocks the narrow one.
TEST(MaxwellGemm, FewBlocksAreSquare) {
  EXPECT_NEAR(UsOnP100(WithBias(2048, 1536, 1536)), 1256, 0.1 * 1256);
  const auto per_flop = [](const KernelWork& work) { return UsOnP100(work) / work.flop.count(); };
  EXPECT_GT(per_flop(WithBias(2048, 2048, 1536)), 1.05 * per_flop(WithBias(2048, 1536, 1536)));
}

// NeuSight's P100: 8,192 rows by 4,096 columns take 38.1 ms with 4,096 to sum over (7.2 TFLOP/s)
// and 864 ms with 30,522 (2.4). Weights that lie across the reduction are read as they are.
TEST(MaxwellGemm, LongRowsCost) {
  const auto per_flop = [&](int64_t k, int across) {
    const KernelWork work = AcrossReduction(WithBias(8192, 4096, k), across);
    return UsOnP100(work) / work.flop.count();
  };
  EXPECT_NEAR(per_flop(30522, 0) / per_flop(4096, 0), 1 + 1.6 * 0.77, 0.03);
  EXPECT_NEAR(per_flop(30522, 1) / per_flop(4096, 1), 1, 0.01);
  // The first wave keeps step: 8 x 128 blocks of 4 x 56.
  const KernelWork few = WithBias(128, 1024, 65536);
  EXPECT_LT(UsOnP100(few), 1.8 * UsOnP100(AcrossReduction(few, 1)));
}

}  // namespace
}  // namespace foretrace
