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

// Rows of 510 are no whole vectors of four. 528 rows are a wave of 4 blocks of 512 threads on each
// multiprocessor, each a step, then 4 blocks of 256 with two; 1.1 and 0.5 MB pass beside that.
TEST(AnalyticRows, NormsOfUnalignedRowsAreTwoKernels) {
  const double moments_us = (1220 + 160) / 1830.0 + 4 * (512 * 79 + 510 * 35) / kOfSm;
  const double results_us = (2270 + 2 * 255) / 1830.0 + 4 * 510 * 14 / kOfSm;
  const double in = (528 + 2) * 510 * 2, out = 528 * (510 * 2 + 8);
  const auto beside = [](double us, double bytes) {
    return std::pow(std::pow(us, 2.5) + std::pow(bytes / 3350e3, 2.5), 0.4);
  };
  EXPECT_NEAR(Us(LayerNormOp{528, 510}), 2 + beside(moments_us, in) + beside(results_us, in + out),
              1e-3);
}

double SoftmaxUs(const SoftmaxOp& op, RowPlace place, Direction pass = Direction::kForward) {
  KernelWork work = Kernels({op, DType::kBFloat16, pass}).back();
  work.row_place = place;
  return AnalyticRowsUs({1, 1}, H100(), work);
}

// What blocks take beside what the memory does, to the power of four.
double Beside(double blocks_us, double bytes) {
  return std::pow(std::pow(blocks_us, 4) + std::pow(bytes / 3350e3, 4), 0.25);
}

TEST(AnalyticRows, SoftmaxOfRecordedReleasesGoesThreeTimesOverRows) {
  // 5,185 halves are less than a step of 1,024 threads with eight each: all go alone, with 25 + 4 *
  // 9 instructions. Two blocks at once on 132 multiprocessors: 792 rows are three waves.
  const double wave_us = 2900 / 1830.0 + 2 * 5185 * 61 / kOfSm;
  EXPECT_NEAR(SoftmaxUs({792, 5185}, RowPlace::kMemory), 1 + 3 * wave_us, 0.01);
  // 8,192 are one step, whose accesses are an eighth.
  const double vector_us = 2900 / 1830.0 + 2 * 8192 * (25 + 36.0 / 8) / kOfSm;
  EXPECT_NEAR(SoftmaxUs({792, 8192}, RowPlace::kMemory), 1 + 3 * vector_us, 0.2);
  // Rows of over nine elements for each of 1,024 threads still do.
  EXPECT_EQ(Us(SoftmaxOp{792, 9217}), SoftmaxUs({792, 9217}, RowPlace::kMemory));
}

TEST(AnalyticRows, ShortSoftmaxRunsInWarps) {
  // Rows of 8 halves, eight lanes each, two a warp: 32 rows a block, 16 blocks a multiprocessor:
  // 675,840 rows are ten waves. A lane has an element of either row.
  const double wave_us = (1180 + 2 * 97) / 1830.0 + 16 * 32 * (8 * 9.5 + 8 * 12) / kOfSm;
  EXPECT_NEAR(Us(SoftmaxOp{675840, 8}), 1 + Beside(10 * wave_us, 675840 * 8 * 4.0), 1e-3);
  // 1,500 columns are 64 elements of a lane, of which the code of 32 is fetched again; with 92
  // registers a multiprocessor holds five blocks of four rows: 2,640 are one wave.
  const double long_us =
      (1180 + 64 * 97 + 32 * 81) / 1830.0 + 5 * 4 * (2048 * 9.5 + 1500 * 12) / kOfSm;
  EXPECT_NEAR(Us(SoftmaxOp{2640, 1500}), 1 + Beside(long_us, 2640 * 1500 * 4.0), 1e-3);
  // Gradients: no exponentials; eight elements of a lane take 44 registers, 11 blocks at once.
  const double gradient_us = (985 + 8 * 16) / 1830.0 + 11 * 4 * 256 * 7.7 / kOfSm;
  EXPECT_NEAR(SoftmaxUs({5808, 256}, RowPlace::kByColumns, Direction::kBackward),
              1 + Beside(gradient_us, 5808 * 256 * 6.0), 1e-3);
}

TEST(AnalyticRows, LongerSoftmaxRunsInRegistersOfABlock) {
  // 5,185 columns are six elements of each of 1,024 threads, two blocks at once: 792 rows are three
  // waves; eight elements leave registers for one block, six waves.
  const double two_us = (1100 + 6 * 330) / 1830.0 + 2 * 6 * 1024 * 31 / kOfSm;
  EXPECT_NEAR(Us(SoftmaxOp{792, 5185}), 1 + Beside(3 * two_us, 792 * 5185 * 4.0), 1e-3);
  const double one_us = (1100 + 8 * 330) / 1830.0 + 8 * 1024 * 31 / kOfSm;
  EXPECT_NEAR(Us(SoftmaxOp{792, 8192}), 1 + Beside(6 * one_us, 0.9 * 792 * 8192 * 4.0), 0.1);
}

TEST(AnalyticRows, GradientsOfLongSoftmaxKeepWholeVectors) {
  // 4,096 halves are 512 vectors, two for each of 256 threads; eight blocks at once.
  const double vector_us = (1480 + 2 * 260) / 1830.0 + 8 * 4096 * 7.5 / kOfSm;
  EXPECT_NEAR(SoftmaxUs({1056, 4096}, RowPlace::kByColumns, Direction::kBackward),
              1 + Beside(vector_us, 1056 * 4096 * 6 / 0.9), 0.01);
  // 4,095 are none, and 511 whole vectors' threads, 16 elements each.
  const double single_us = (4240 + 16 * 230) / 1830.0 + 4095 * 26 / kOfSm;
  EXPECT_NEAR(SoftmaxUs({132, 4095}, RowPlace::kByColumns, Direction::kBackward),
              1 + Beside(single_us, 132 * 4095 * 6.0), 1e-3);
}

}  // namespace
}  // namespace foretrace
