#include "simulator/calibrate/kernel/uncalibrated_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <string>

#include "simulator/calibrate/calibrate.h"
#include "simulator/calibrate/kernel/kernel_fitter.h"
#include "simulator/cost/kernel/analytic_gemm.h"
#include "tests/support/temp_folder.h"

namespace foretrace {
namespace {

using ::testing::HasSubstr;

constexpr char kHeader[] =
    "kind,op,phase,platform,dtype,shape,time_us,std_us,repeats,library,source\n";
// y[m,n] = x[m,k] W of 4,096 each, which an H100 takes some 0.1 ms for in 8 bits.
constexpr char kFloat8[] =
    "kernel,linear,forward,h100-sxm5-lab,float8_e4m3fn,m=4096;n=4096;k=4096;bias=0";

BenchmarkTable Parsed(const std::string& lines) {
  const TempFolder folder;
  const std::string path = folder.path() + "/t.csv";
  std::ofstream(path) << kHeader << lines;
  auto table = ReadBenchmarkCsv(path);
  EXPECT_TRUE(table.ok()) << table.status();
  return table.ok() ? *table : BenchmarkTable();
}

double PredictedUs(const std::string& line) {
  const BenchmarkTable table = Parsed(line);
  const auto rows = UncalibratedKernels().Evaluate(table.rows);
  EXPECT_EQ(rows.size(), 1u);
  return rows.empty() ? 0 : rows[0].predicted_us;
}

TEST(UncalibratedKernels, PredictByTheFileOfTheDeviceAlone) {
  const GpuPeaks h100 = *FindGpuPeaks("h100-sxm5-80gb");
  const KernelWork work =
      Kernels({LinearOp{4096, 4096, 4096}, DType::kFloat8, Direction::kForward})[0];
  const double us = AnalyticGemmUs(h100, Precision::kFloat8, work);
  EXPECT_NEAR(PredictedUs(std::string(kFloat8) + ",100,0,1,x,y\n"), us, 1e-3);
}

// 16.8 million elements of x, read in 16 bits and written in 8 at 0.85 of 3,350 GB/s in a kernel of
// 0.74 us: 18.4 us. One scale for all takes another reading of 0.74 and 11.8 us, after 0.74 us that
// clear it. A scale for every 128 takes 21 instructions an element at 15.46 million a
// microsecond, 22.8 us, beside the cast, and other GEMMs.
TEST(UncalibratedKernels, AddWhatMakesEightBits) {
  const double plain = PredictedUs(std::string(kFloat8) + ",100,0,1,x,y\n");
  const double blocks = PredictedUs(std::string(kFloat8) + ";quantised=block,100,0,1,x,y\n");
  const double tensor = PredictedUs(std::string(kFloat8) + ";quantised=tensor,100,0,1,x,y\n");
  const double elements = 4096.0 * 4096, pass_us = elements / (0.85 * 3350e3);
  // Each kernel begins 1.2 us after the one before it has ended.
  EXPECT_NEAR(tensor - plain, 3 * (0.74 + 1.2) + 5 * pass_us, 0.1);
  LinearOp op{4096, 4096, 4096};
  op.block_scaled = true;
  const KernelWork scaled = Kernels({op, DType::kFloat8, Direction::kForward})[0];
  const double gemm_us =
      AnalyticGemmUs(*FindGpuPeaks("h100-sxm5-80gb"), Precision::kFloat8, scaled);
  EXPECT_NEAR(blocks - gemm_us, 1.2 + std::hypot(0.74 + 3 * pass_us, 21 * elements / 15.46e6), 0.1);
}

TEST(UncalibratedKernels, QuantisationIsOfEightBits) {
  const auto refused = [](const std::string& line) {
    const TempFolder folder;
    const std::string path = folder.path() + "/t.csv";
    std::ofstream(path) << kHeader << line;
    return std::string(ReadBenchmarkCsv(path).status().message());
  };
  EXPECT_THAT(
      refused("kernel,linear,forward,h100,bfloat16,m=1;n=1;k=1;quantised=block,9,0,1,x,y\n"),
      HasSubstr("only operands of 8 bits"));
  EXPECT_THAT(refused(std::string(kFloat8) + ";quantised=row,9,0,1,x,y\n"),
              HasSubstr("not tensor or block"));
}

// `calibrate kernel --calibration none --test TABLE.csv`: a line with its errors, and whose file.
TEST(UncalibratedKernels, AreEvaluatedLikeACalibration) {
  const TempFolder folder;
  const std::string path = folder.path() + "/t.csv";
  std::ofstream(path) << kHeader << kFloat8 << ",100,0,1,x,y\n";
  CalibrateOptions options;
  options.calibration = "none";
  options.test_tables = {path};
  const auto report = RunCalibrate(KernelFitter(), options);
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->models.size(), 2u);
  EXPECT_EQ(report->models[0].name, "gemm float8 forward");
  EXPECT_GT(report->models[0].median_percent, 0);
  EXPECT_FALSE(report->in_sample);
  ASSERT_EQ(report->notes.size(), 1u);
  EXPECT_THAT(report->notes[0], HasSubstr("h100-sxm5-80gb.yaml alone"));
}

// A platform that names no device is no reason to take another's.
TEST(UncalibratedKernels, SayWhatHasNoFile) {
  const BenchmarkTable table =
      Parsed("kernel,linear,forward,nosuch-gpu,float32,m=64;n=64;k=64,9,0,1,x,y\n");
  EXPECT_TRUE(UncalibratedKernels().Evaluate(table.rows).empty());
  EXPECT_THAT(UncalibratedKernels().NotesOn("nosuch-gpu"),
              ::testing::ElementsAre(HasSubstr("nosuch-gpu")));
}

}  // namespace
}  // namespace foretrace
