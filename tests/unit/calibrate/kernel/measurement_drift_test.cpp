#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "simulator/calibrate/csv_table.h"
#include "simulator/calibrate/kernel/kernel_fit.h"
#include "simulator/calibrate/kernel/kernel_fitter.h"
#include "simulator/cost/kernel/kernel_file.h"
#include "tests/support/temp_folder.h"

namespace foretrace {
namespace {

const GpuPeaks& P100() {
  static const GpuPeaks device = *FindGpuPeaks("p100-pcie");
  return device;
}

TEST(Measurement, DriftsWithTheShapesRunBefore) {
  const Measurement measurement{0, 60, 80, 15};
  // 2,000 shapes: 80 * 2 + 15 * 2 * 2 = 220 us on top of 60 + 40.
  EXPECT_DOUBLE_EQ(measurement.Observed(40), 100);
  EXPECT_DOUBLE_EQ(measurement.Observed(40, 2000), 320);
}

KernelModel Truth() {
  KernelModel truth;
  truth.key = {KernelKind::kConvolution, Precision::kFloat32, Direction::kForward, 0};
  truth.form = KernelForm::kGemm;
  truth.gemm = {2, 0.9, 10, 0.6};
  truth.gemm.fused_efficiency = 0.8;
  truth.gemm.staged_efficiency = 1;
  truth.gemm.block_us = 3;
  truth.gemm.algorithm_spread = 0.1;
  truth.measurement = {0, 60, 80, 15};
  return truth;
}

// Convolutions of all sizes in no order of size, as the truth takes them.
std::vector<KernelSample> Drifting() {
  const KernelModel truth = Truth();
  std::vector<KernelSample> samples;
  for (int64_t i = 0; i < 200; ++i) {
    const int64_t images = 1 + i * 7 % 64, side = 5 + i * 11 % 50, channels = 3 + i * 389 % 1000;
    const Conv2dOp op{images, channels, side, side, 3 + i * 173 % 700, 3, 3, side, side};
    const KernelWork work = Kernels({op, DType::kFloat32, Direction::kForward}).front();
    const int64_t order = i * 22;
    samples.push_back(
        {work, truth.measurement.Observed(truth.KernelUs(P100(), work), order), order});
  }
  return samples;
}

TEST(MeasurementDrift, IsFittedApartFromTheKernels) {
  const auto samples = Drifting();
  const auto model =
      FitKernelModel(P100(), Truth().key, samples, {.has_overhead = true, .with_residual = false});
  ASSERT_TRUE(model.ok()) << model.status();
  // 4,378 shapes: 80 * 4.378 + 15 * 4.378 * 4.378 = 638 us by the last row.
  EXPECT_NEAR(model->measurement.Observed(100, 4378) - model->measurement.Observed(100), 638, 20);
  for (const KernelSample& sample : {samples[3], samples[100], samples[199]}) {
    const double us = Truth().KernelUs(P100(), sample.work);
    EXPECT_NEAR(model->KernelUs(P100(), sample.work) / us, 1, 0.1);
  }
}

TEST(MeasurementDrift, IsAbsentWhereNoOrderIsKnown) {
  auto samples = Drifting();
  for (KernelSample& sample : samples) sample.order = 0;
  const auto model =
      FitKernelModel(P100(), Truth().key, samples, {.has_overhead = true, .with_residual = false});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->measurement.drift_us, 0);
  EXPECT_EQ(model->measurement.drift_growth_us, 0);
}

// A table of the drifting convolutions.
std::vector<BenchmarkRow> Rows() {
  std::string text = "kind,op,phase,platform,dtype,shape,time_us,std_us,repeats,library,source\n";
  for (const KernelSample& sample : Drifting()) {
    const KernelWork& w = sample.work;
    text += fmt::format(
        "kernel,conv2d,forward,p100-pcie,float32,n={};c={};h={};w={};k={};r=3;s=3;stride=1;pad=1;"
        "dilation=1;groups=1;order={},{},0,1,torch,neusight\n",
        w.images, w.channels, w.image, w.image, w.n, sample.order, sample.time_us);
  }
  const auto table = ParseBenchmarkCsv("table.csv", text);
  EXPECT_TRUE(table.ok()) << table.status();
  return table.ok() ? table->rows : std::vector<BenchmarkRow>();
}

TEST(MeasurementDrift, IsPartOfWhatRowsAreExpectedToShowAndSurvivesTheFile) {
  const std::vector<BenchmarkRow> rows = Rows();
  FitOptions options;
  options.form = "roofline";
  const auto models = KernelFitter().Fit(rows, options);
  ASSERT_TRUE(models.ok()) << models.status();
  for (const EvaluatedRow& row : (*models)->Evaluate(rows)) {
    EXPECT_NEAR(row.predicted_us / row.row->time_us, 1, 0.1);
  }
  CalibrationHeader header;
  header.kind = "kernel";
  header.platform = "p100-pcie";
  header.date = "2026-01-01";
  header.command = "test";
  const TempFolder folder;
  const auto loaded =
      LoadKernelModels(folder.Write("kernels.yaml", HeaderYaml(header) + (*models)->ToYaml()));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_GT(loaded->models.models()[0].measurement.drift_us, 0);
  EXPECT_EQ(KernelModelsYaml(loaded->models), (*models)->ToYaml());
}

TEST(MeasurementDrift, OrdersAreNotNegative) {
  std::string text = "kind,op,phase,platform,dtype,shape,time_us,std_us,repeats,library,source\n";
  text +=
      "kernel,conv2d,forward,p100-pcie,float32,n=1;c=8;h=8;w=8;k=8;r=3;s=3;stride=1;pad=1;"
      "dilation=1;groups=1;order=-1,100,0,1,torch,neusight\n";
  const auto table = ParseBenchmarkCsv("table.csv", text);
  ASSERT_FALSE(table.ok());
  EXPECT_NE(table.status().message().find("order"), std::string::npos);
}

}  // namespace
}  // namespace foretrace
