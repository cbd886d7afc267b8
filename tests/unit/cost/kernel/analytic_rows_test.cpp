#include "simulator/cost/kernel/analytic_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <variant>

namespace foretrace {
namespace {

// 132 multiprocessors at 1,830 MHz: 132 * 64 * 1,830 = 15.46 million integer instructions a
// microsecond. Streaming kernels take 1 us and then all of the bandwidth.
const GpuPeaks& H100() {
  static const GpuPeaks device = *FindGpuPeaks("h100-sxm5-80gb");
  return device;
}

double Us(OperatorCall::Shape shape) {
  const MemoryParameters streaming{1, 1};
  return AnalyticRowsUs(streaming, H100(),
                        Kernels({std::move(shape), DType::kBFloat16, Direction::kForward})[0]);
}

constexpr double kOfSm = 64 * 1830;  // instructions a microsecond of a multiprocessor

TEST(AnalyticRows, AFewNormsTakeTheLatencyOfOne) {
  // 768 columns are two steps of 128 threads with four elements each: 3,300 + 2 * 860 cycles and
  // 2 * 128 * 30 instructions. Five rows meet no other block on their multiprocessors.
  const double block_us = (3300 + 2 * 860) / 1830.0 + 2 * 128 * 30 / kOfSm;
  EXPECT_NEAR(Us(LayerNormOp{5, 768}), 1 + block_us, 1e-3);
  EXPECT_NEAR(Us(LayerNormOp{132, 768}), 1 + block_us, 1e-3);
  // 4,096 are eight steps; the loads of the last six are under way by then.
  const double longer_us = (3300 + 2 * 860 + 6 * 360) / 1830.0 + 8 * 128 * 30 / kOfSm;
  EXPECT_NEAR(Us(LayerNormOp{5, 4096}), 1 + longer_us, 1e-3);
}

TEST(AnalyticRows, ManyNormsShareTheLanesOfTheirMultiprocessors) {
  // 65,536 registers are those of 12 blocks of 128 threads with 40 each: 15,840 rows are ten waves
  // of 132 multiprocessors. 48.7 MB at 0.9 of 3,350 GB/s lengthen them: to the power of 2.5.
  const double wave_us = (3300 + 2 * 860) / 1830.0 + 12 * 2 * 128 * 30 / kOfSm;
  const double memory_us = (15840 * (2 * 768 * 2 + 8) + 2 * 768 * 2) / (0.9 * 3350e3);
  EXPECT_NEAR(Us(LayerNormOp{15840, 768}),
              1 + std::pow(std::pow(10 * wave_us, 2.5) + std::pow(memory_us, 2.5), 0.4), 0.01);
}

// 896 columns are two steps of 100 cycles behind 1,400. 8,192 rows of 4,096 go through L2 three
// times, 201 MB at 21 bytes a cycle of each multiprocessor, longer than 134 MB at 0.9 of 3,350 GB/s
// do.
TEST(AnalyticRows, NormsOfSquaresReadTheirRowsAgain) {
  const auto us = [](int64_t rows, int64_t cols) {
    KernelWork work =
        Kernels({LayerNormOp{rows, cols}, DType::kBFloat16, Direction::kForward}).front();
    work.mean_square = true;
    return AnalyticRowsUs({1, 1}, H100(), work);
  };
  EXPECT_NEAR(us(5, 896), 1 + 1600 / 1830.0 + 2 * 128 * 15 / kOfSm, 1e-3);
  const double tensor = 8192.0 * 4096 * 2, weights = 2 * 4096 * 2, statistics = 2 * 8192 * 4;
  const double second_us = (3 * tensor + 2 * weights + statistics) / (21 * 132 * 1830.0);
  const double memory_us = (2 * tensor + weights + statistics) / (0.9 * 3350e3);
  EXPECT_NEAR(us(8192, 4096),
              1 + std::pow(std::pow(second_us, 2.5) + std::pow(memory_us, 2.5), 0.4), 0.5);
}

TEST(AnalyticRows, NormsOfEnginesTakeOnePass) {
  const auto us = [](int64_t rows, int64_t cols) {
    KernelWork work =
        Kernels({LayerNormOp{rows, cols}, DType::kBFloat16, Direction::kForward}).front();
    work.load_elements = 8;
    return AnalyticRowsUs({1, 1}, H100(), work);
  };
  // 4,096 halves are 512 loads of eight, by 512 threads at once where rows are few: 1,400 cycles
  // and ten instructions an element.
  EXPECT_NEAR(us(5, 4096), 1 + 1400 / 1830.0 + 4096 * 10 / kOfSm, 1e-3);
  // 1,056 rows are one wave of eight blocks of 256 threads, each with a second step, on each of 132
  // multiprocessors; 17 MB take 5.2 us beside that.
  const double blocks_us = 1500 / 1830.0 + 8 * 4096 * 10 / kOfSm;
  EXPECT_GT(us(1056, 4096), 1 + blocks_us);
  EXPECT_LT(us(1056, 4096), 1 + blocks_us + 1056 * 4096 * 4 / 3350e3);
}

TEST(AnalyticRows, LongUnalignedSoftmaxGoesElementByElement) {
  // 5,185 halves are less than a step of 1,024 threads with eight each: all go alone, with 25 + 4 *
  // 9 instructions. Two blocks at once on 132 multiprocessors: 792 rows are three waves.
  const double wave_us = 2900 / 1830.0 + 2 * 5185 * 61 / kOfSm;
  EXPECT_NEAR(Us(SoftmaxOp{792, 5185}), 1 + 3 * wave_us, 0.01);
  // 8,192 are one step, whose accesses are an eighth.
  const double vector_us = 2900 / 1830.0 + 2 * 8192 * (25 + 36.0 / 8) / kOfSm;
  EXPECT_NEAR(Us(SoftmaxOp{792, 8192}), 1 + 3 * vector_us, 0.2);
}

TEST(AnalyticRows, ShortSoftmaxRunsInWarps) {
  // Rows of 8 halves, eight lanes each: 128 / 8 * 2 = 32 rows a block, 16 blocks a multiprocessor:
  // 675,840 rows are ten waves.
  const double wave_us = 2000 / 1830.0 + 16 * 32 * 8 * 43 / kOfSm;
  EXPECT_NEAR(Us(SoftmaxOp{675840, 8}), 1 + 10 * wave_us, 0.1);
}

}  // namespace
}  // namespace foretrace
