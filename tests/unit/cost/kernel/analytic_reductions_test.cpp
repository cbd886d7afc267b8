#include "simulator/cost/kernel/analytic_reductions.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string_view>

namespace foretrace {
namespace {

// 108 multiprocessors at 1,410 MHz for 2,048 threads each; 1,555 GB/s, a partition of 20 MB of L2.
GpuPeaks Device(std::string_view name = "a100-pcie-40gb") { return *FindGpuPeaks(name); }

double Us(const ReductionOp& op, const GpuPeaks& device = Device()) {
  const MemoryParameters streaming{2, 1};
  return AnalyticReductionUs(streaming, device,
                             Kernels({op, DType::kFloat32, Direction::kForward})[0]);
}

// Instructions hide behind what takes longer, but for this.
constexpr double kBeside = 0.02;

TEST(AnalyticReductions, SumsDownColumnsWaitForTheirLoads) {
  // 100 columns, four a thread: blocks of 16 by 8 threads. 1,024 rows are 128 a thread, 32 trips of
  // four loads, 440 cycles each, after 1,500 of the start.
  EXPECT_NEAR(Us({100, 1024, true}), 2 + (1500 + 32 * 440) / 1410.0, kBeside);
  // 16 rows: 4 trips, by threads that have a result each.
  EXPECT_NEAR(Us({512, 16, true}), 2 + (1500 + 4 * 440) / 1410.0, kBeside);
  // Many columns stream: 1 GB at 0.9 of 1,555 GB/s.
  EXPECT_NEAR(Us({1 << 20, 256, true}),
              2 + 1500 / 1410.0 + 4.0 * ((1 << 20) * 257.0) / (0.9 * 1555e3), kBeside);
}

TEST(AnalyticReductions, BlocksShareLongColumns) {
  // 128 columns: blocks of 32 by 4, 256 rows a thread, which 16 blocks share: 16 rows each, then
  // the last one's four rows of threads add up 16 parts in four trips of 530 cycles.
  EXPECT_NEAR(Us({128, 1024, true}), 2 + (1500 + 4 * 440 + 7000 + 4 * 530) / 1410.0, kBeside);
  // 8,192 rows are 2,048 a thread, 128 parts, 32 trips; 4.2 MB take longer than 16 rows a thread.
  EXPECT_NEAR(Us({128, 8192, true}),
              2 + (1500 + 7000 + 32 * 530) / 1410.0 + 4.0 * 128 * 8193 / 1555e3, kBeside);
}

// Four rows for each of 8.4 M columns, four a thread: 2.1 M threads of 196 instructions and 8.75
// for each of 16 elements, at 64 x 132 x 1,830 a microsecond, longer than 168 MB take.
TEST(AnalyticReductions, ShortColumnsAreInstructions) {
  const GpuPeaks h100 = *FindGpuPeaks("h100-sxm5-80gb");
  const double columns = 8192.0 * 8 * 128;
  const KernelWork work =
      Kernels({ReductionOp{8192 * 8 * 128, 4, true}, DType::kBFloat16, Direction::kForward})[0];
  const double issue_us = columns / 4 * (196 + 8.75 * 16) / (64 * 132 * 1.83e3);
  const double us = AnalyticReductionUs({2, 1}, h100, work);
  EXPECT_GT(us, 2 + 1500 / 1830.0 + issue_us);
  EXPECT_LT(us, 2 + 1500 / 1830.0 + 1.01 * issue_us);
}

TEST(AnalyticReductions, AWarpAddsUpARow) {
  // 131,072 rows of 49: 16 warps a block, 8,192 blocks, of which 432 are held at once: 19 times the
  // 2,740 cycles of a row and one trip, and 512 x 30 instructions a block on 64 lanes. 25.7 and 0.5
  // MB pass beside that.
  const double blocks_us = (19 * (2740 + 440) + 8192 / 108.0 * 240) / 1410.0;
  const double memory_us = 131072 * 50 * 4 / (0.9 * 1555e3);
  EXPECT_NEAR(Us({131072, 49}), 2 + std::hypot(blocks_us, memory_us), 1e-6);
}

TEST(AnalyticReductions, BlocksShareOneLongRow) {
  // A million elements by blocks of 512: 2,048 a thread, 128 blocks with 16 each, whose parts one
  // trip adds up.
  const double blocks_us = (2740 + 4 * 440 + 128 / 108.0 * 240) / 1410.0;
  const double memory_us = ((1 << 20) + 1) * 4 / 1555e3;
  EXPECT_NEAR(Us({1, 1 << 20}), 2 + (7000 + 530) / 1410.0 + std::hypot(blocks_us, memory_us), 1e-6);
}

// 16 rows of 4,096, a warp each of one block: 128 elements a thread, of halves eight at a time, 16
// trips, and 32 of four by a kernel that is not made for vectors; 512 x 30 instructions.
TEST(AnalyticReductions, RowsOfHalvesAreLoadedInVectors) {
  KernelWork work = Kernels({ReductionOp{16, 4096}, DType::kBFloat16, Direction::kForward}).front();
  const auto us = [&] { return AnalyticReductionUs({2, 1}, Device(), work); };
  const auto of = [](double steps) { return 2 + (2740 + steps * 440 + 240 / 108.0) / 1410.0; };
  EXPECT_NEAR(us(), of(16), 0.01);
  work.load_elements = 4;
  EXPECT_NEAR(us(), of(32), 0.01);
}

TEST(AnalyticReductions, VoltaFetchesCodeAndLoadsInTurn) {
  // 1,800 cycles at 1,530 MHz for the code, and four loads of 193 cycles a step.
  const GpuPeaks v100 = Device("v100-sxm2-16gb");
  EXPECT_NEAR(Us({512, 16, true}, v100), 2 + (1500 + 1800 + 4 * 4 * 193) / 1530.0, 1e-6);
  // Along rows 3,200 cycles, and loads that are under way together.
  const double block_us = (2740 + 440 + 32 * 30 / 64.0 / 80) / 1530.0;
  EXPECT_NEAR(Us({1, 32}, v100), 2 + 3200 / 1530.0 + block_us, 0.01);
}

TEST(AnalyticReductions, SurvivesHostileSizes) {
  for (const bool down : {false, true}) {
    EXPECT_GT(Us({int64_t{1} << 62, 1, down}), 0);
    EXPECT_GT(Us({1, int64_t{1} << 62, down}), 0);
    EXPECT_GT(Us({0, 0, down}), 0);
    EXPECT_TRUE(std::isfinite(Us({int64_t{1} << 31, int64_t{1} << 31, down})));
  }
}

}  // namespace
}  // namespace foretrace
