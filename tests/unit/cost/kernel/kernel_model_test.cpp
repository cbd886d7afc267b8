#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "simulator/calibrate/kernel/kernel_fit.h"
#include "simulator/calibrate/kernel/kernel_fitter.h"
#include "simulator/cost/kernel/analytic_convolution.h"
#include "simulator/cost/kernel/analytic_gemm.h"
#include "simulator/cost/kernel/analytic_memory.h"
#include "simulator/cost/kernel/analytic_rows.h"
#include "simulator/cost/kernel/kernel_file.h"
#include "simulator/cost/kernel/vector_rates.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/cost/kernel/work_on_a100.h"

namespace foretrace {
namespace {

TEST(GpuPeaksTest, FindsPlatformsAndDriverNames) {
  EXPECT_EQ(FindGpuPeaksOfLabel("a100-sxm4-nvswitch")->name, "a100-sxm4-80gb");
  EXPECT_EQ(FindGpuPeaks("NVIDIA A100-PG509-200")->dram_gbps, 1555);
  EXPECT_EQ(FindGpuPeaks("Tesla V100-SXM2-32GB")->sms, 80);
  EXPECT_EQ(FindGpuPeaks("NVIDIA GeForce RTX 2080 Ti")->sms, 68);
  EXPECT_FALSE(FindGpuPeaks("abacus").ok());
  // A device's own name finds itself: calibration files name it.
  for (const char* name :
       {"a100-pcie-40gb", "a100-pcie-80gb", "a100-sxm4-40gb", "a100-sxm4-80gb", "h100-sxm5-80gb",
        "h200-sxm5", "v100-sxm2", "v100-pcie", "p100-pcie", "t4", "rtx-2080-ti"}) {
    ASSERT_TRUE(FindGpuPeaks(name).ok()) << name;
    EXPECT_TRUE(FindGpuPeaks(name)->name.starts_with(name)) << name;
  }
}

std::vector<KernelSample> Synthetic() {
  KernelModel truth;
  truth.form = KernelForm::kMemory;
  truth.memory = {2, 0.8};
  truth.measurement = {20, 12};
  std::vector<KernelSample> samples;
  for (int64_t e = 1000; e < 200000000; e += e / 7) {
    const KernelWork work = Only(ElementwiseOp{e, e});
    samples.push_back({work, truth.measurement.Observed(truth.KernelUs(A100(), work))});
  }
  return samples;
}

TEST(KernelFit, RecoversParametersAndLeavesOverheadOutOfPredictions) {
  const auto samples = Synthetic();
  const KernelKey key = KeyOf(samples[0].work, Precision::kFloat32);
  const auto model = FitKernelModel(A100(), key, samples, {.has_overhead = true});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_NEAR(model->memory.bandwidth_efficiency, 0.8, 1e-3);
  EXPECT_NEAR(model->measurement.overhead_us, 12, 0.1);
  EXPECT_NEAR(model->measurement.floor_us, 20, 0.1);
  EXPECT_NEAR(model->KernelUs(A100(), Only(ElementwiseOp{1000, 1000})), 2.0, 0.1);
}

TEST(KernelFit, NeedsFiveRows) {
  const auto samples = Synthetic();
  const KernelKey key = KeyOf(samples[0].work, Precision::kFloat32);
  const std::span<const KernelSample> few(samples.data(), 4);
  EXPECT_FALSE(FitKernelModel(A100(), key, few, {}).ok());
}

KernelModels Fitted() {
  const auto samples = Synthetic();
  const KernelKey key = KeyOf(samples[0].work, Precision::kFloat32);
  auto model = FitKernelModel(A100(), key, samples, {.has_overhead = true});
  const float inf = std::numeric_limits<float>::infinity();
  model->residual = *TreeEnsemble::Create(1, 7, {0}, {inf}, {0.1f, 0.2f});
  model->residual_clip = 0.15;
  return KernelModels(A100(), {*model});
}

// Rows that the device holds at once: a fit with the benchmark's own overhead knows less of their
// time than the chain of their loads and sums does; without overhead, or in waves, the fit stands.
TEST(KernelModels, RowsOfOneWaveAreNotHiddenByABenchmarksOverhead) {
  const KernelWork few = Only(LayerNormOp{1024, 128}), many = Only(LayerNormOp{65536, 128});
  const auto us = [](double overhead_us, const KernelWork& work) {
    KernelModel model;
    model.key = KeyOf(work, Precision::kFloat32);
    model.form = KernelForm::kMemory;
    model.memory.row_us = 6;
    model.measurement.overhead_us = overhead_us;
    return KernelModels(A100(), {model}).Predict(work, Precision::kFloat32).time.us();
  };
  EXPECT_LT(us(35, few), us(0, few) - 1);
  EXPECT_NEAR(us(35, few), AnalyticRowsUs(KernelModel().memory, A100(), few), 0.01);
  EXPECT_EQ(us(35, many), us(0, many));
}

TEST(KernelModels, FlagsWhatLiesOutsideTheCalibratedRange) {
  const KernelModels models = Fitted();
  const Estimate inside =
      models.Predict(Only(ElementwiseOp{1 << 20, 1 << 20}), Precision::kFloat32);
  EXPECT_EQ(inside.source, EstimateSource::kCalibrated);
  EXPECT_FALSE(inside.extrapolated);
  EXPECT_TRUE(
      models.Predict(Only(ElementwiseOp{1 << 29, 1 << 29}), Precision::kFloat32).extrapolated);
  const Estimate other = models.Predict(Only(LinearOp{512, 512, 512}), Precision::kHalf);
  EXPECT_EQ(other.source, EstimateSource::kAnalytic);
  EXPECT_TRUE(other.extrapolated);
  EXPECT_GT(other.time.ps(), 0);
}

// A convolution model of one precision, whose Winograd algorithms alone were measured.
KernelModels WinogradAndGemm() {
  KernelModel winograd;
  winograd.key = {KernelKind::kConvolution, Precision::kFloat32, Direction::kForward, 0};
  winograd.form = KernelForm::kGemm;
  winograd.gemm.compute_efficiency = 0.05;  // never the fastest of what was measured
  winograd.gemm.staged_efficiency = 0.9;
  winograd.upper = {1 << 30, 1 << 30, 1 << 30, 1};
  KernelModel gemm;
  gemm.key = {KernelKind::kGemm, Precision::kFloat32, Direction::kForward, 0};
  gemm.form = KernelForm::kGemm;
  gemm.gemm = {0, 0.9, 0, 0.8};
  gemm.upper = winograd.upper;
  return KernelModels(A100(), {winograd, gemm});
}

TEST(KernelModels, OtherConvolutionsThanTheMeasuredRunLikeGemms) {
  const KernelModels models = WinogradAndGemm();
  const auto estimate = [&](int64_t filter, int64_t stride, Direction pass) {
    const Conv2dOp op{32, 256, 56, 56, 256, filter, filter, 56 / stride, 56 / stride};
    const KernelWork work = Kernels({op, DType::kFloat32, pass}).front();
    return std::pair(models.Predict(work, Precision::kFloat32), work.flop.count() / (0.9 * 19.5e6));
  };
  const auto [known, at_peak] = estimate(3, 1, Direction::kForward);
  EXPECT_EQ(known.source, EstimateSource::kCalibrated);
  EXPECT_LT(known.time.us(), at_peak);
  for (const auto& [filter, stride] : {std::pair{1, 1}, {3, 2}, {5, 1}}) {
    for (const Direction pass : {Direction::kForward, Direction::kBackward}) {
      const auto [other, alone_us] = estimate(filter, stride, pass);
      EXPECT_EQ(other.source, EstimateSource::kAnalytic);
      EXPECT_TRUE(other.extrapolated);
      // A GEMM of whole tiles, but for the last wave of 108.
      EXPECT_NEAR(other.time.us() / alone_us, 1.05, 0.05) << filter << " " << stride;
    }
  }
}

TEST(KernelModels, ConvolutionsOnTensorCoresAreNoGemms) {
  // A convolution in TF32 where fp32 ones were measured with Winograd's algorithms and fp16 GEMMs
  // at 0.7 of 312 TFLOP/s: neither tells what changes of layout and empty steps it has.
  const KernelModels fp32 = WinogradAndGemm();
  KernelModel half = *fp32.Find({KernelKind::kGemm, Precision::kFloat32, Direction::kForward, 0});
  half.key.precision = Precision::kHalf;
  half.gemm.compute_efficiency = 0.7;
  std::vector<KernelModel> all(fp32.models().begin(), fp32.models().end());
  all.push_back(half);
  const KernelModels models(A100(), std::move(all));
  const KernelWork work = Only(Conv2dOp{32, 256, 56, 56, 256, 3, 3, 56, 56});
  const Estimate estimate = models.Predict(work, Precision::kTensorFloat32);
  EXPECT_EQ(estimate.source, EstimateSource::kAnalytic);
  EXPECT_NEAR(estimate.time.us(), AnalyticConvolutionUs(A100(), Precision::kTensorFloat32, work),
              1e-3);
}

TEST(KernelModels, ConvolutionsAreKeyedByAlgorithmAndGradient) {
  const auto name = [](int64_t filter, Direction pass, bool weight) {
    const Conv2dOp op{2, 8, 8, 8, 8, filter, filter, 8, 8};
    const KernelList list = Kernels({op, DType::kFloat32, pass});
    return Name(KeyOf(weight ? list.back() : list.front(), Precision::kFloat32));
  };
  EXPECT_EQ(name(3, Direction::kForward, false), "conv2d/winograd float32 forward");
  EXPECT_EQ(name(1, Direction::kForward, false), "conv2d/implicit float32 forward");
  EXPECT_EQ(name(3, Direction::kBackward, false), "conv2d/winograd float32 backward");
  EXPECT_EQ(name(3, Direction::kBackward, true), "conv2d/weight_winograd float32 backward");
  EXPECT_EQ(name(5, Direction::kBackward, true), "conv2d/weight_implicit float32 backward");
}

TEST(KernelModels, RemembersAnswersWithoutMixingThemUp) {
  const KernelModels models = Fitted();
  // The same bytes in other roles are other kernels.
  const KernelWork copy = Only(CopyOp{1 << 20}), strided = Only(CopyOp{1 << 20, true});
  KernelWork few = Only(ConcatOp{1 << 20, 2}), many = few;
  few.parts = 2;
  many.parts = 26;
  const auto us = [&](const KernelWork& work) {
    return models.Predict(work, Precision::kFloat32).time.us();
  };
  const double first[] = {us(copy), us(strided), us(few), us(many)};
  const double again[] = {us(copy), us(strided), us(few), us(many)};
  for (int i = 0; i < 4; ++i) EXPECT_EQ(first[i], again[i]);
  EXPECT_LT(first[0], first[1]);
  // 24 tensors more at 0.33 us each.
  EXPECT_NEAR(first[3] - first[2], 24 * 0.33, 1e-6);
}

// Gradients of inputs and of weights that are as large differ by how their operands lie, which TF32
// on warpgroups pays for (analytic_gemm.cpp), whichever is asked for first.
TEST(KernelModels, RemembersHowOperandsOfGemmsLie) {
  KernelWork along;
  along.kind = KernelKind::kGemm;
  along.batch = 1;
  along.m = along.n = along.k = 4096;
  along.flop = Flop(2.0 * 4096 * 4096 * 4096);
  along.read = Bytes(int64_t{2} * 4096 * 4096 * 4);
  along.written = Bytes(int64_t{4096} * 4096 * 4);
  KernelWork across = along;
  across.across_reduction = 1;
  const auto times = [&](const KernelWork& first, const KernelWork& second) {
    const KernelModels models(*FindGpuPeaks("h100-sxm5-80gb"), std::vector<KernelModel>());
    const SimTime one = models.Predict(first, Precision::kTensorFloat32).time;
    return std::pair(one, models.Predict(second, Precision::kTensorFloat32).time);
  };
  const auto [a, b] = times(along, across);
  EXPECT_LT(a, b);
  EXPECT_EQ(times(across, along), std::pair(b, a));
}

TEST(AnalyticMemory, FillsStream) {
  // 4 MB at 0.8 of 1555 GB/s and 2 us.
  const KernelWork fill = Only(FillOp{1 << 20});
  EXPECT_NEAR(AnalyticMemoryUs({2, 0.8}, A100(), fill), 2 + 4.0 * (1 << 20) / (0.8 * 1555e3), 1e-9);
}

TEST(KernelFit, AFewLongRowsDoNotMakeAFloor) {
  // Twenty GEMMs of 1 ms and more, as another GPU's points have it; a tenth of the work must take
  // less than the shortest of them.
  KernelModel truth;
  truth.form = KernelForm::kGemm;
  truth.key = KeyOf(Only(LinearOp{8, 8, 8}), Precision::kFloat32);
  truth.gemm = AnalyticGemm(A100(), Precision::kFloat32);
  std::vector<KernelSample> samples;
  for (int64_t i = 0; i < 20; ++i) {
    const KernelWork work = Only(LinearOp{2048 + 128 * i, 2048, 2048 + 256 * (i % 5)});
    samples.push_back({work, 30 + truth.KernelUs(A100(), work)});
  }
  const auto model = FitKernelModel(A100(), truth.key, samples, {.has_overhead = true});
  ASSERT_TRUE(model.ok()) << model.status();
  const KernelWork small = Only(LinearOp{512, 768, 768});
  const double expected = 30 + truth.KernelUs(A100(), small);
  EXPECT_NEAR(model->measurement.Observed(model->KernelUs(A100(), small)), expected,
              0.25 * expected);
}

class KernelFitOf : public ::testing::TestWithParam<const char*> {};
// Full precision, and tensor cores, whose trees see samples of the rows.
INSTANTIATE_TEST_SUITE_P(Precisions, KernelFitOf, ::testing::Values("float32", "float16"));

TEST_P(KernelFitOf, TheSameRowsGiveTheSameBytes) {
  std::vector<BenchmarkRow> rows;
  for (int64_t i = 0; i < 400; ++i) {
    const int64_t m = 64 + 32 * (i % 20), n = 256 + 128 * (i / 20), k = 512 + 64 * (i % 7);
    BenchmarkRow row;
    row.kind = BenchmarkKind::kKernel;
    row.platform = "a100-pcie-40gb";
    row.source = "test";
    row.op = "linear";
    row.phase = Phase::kForward;
    row.dtype = GetParam();
    row.shape = *ShapeKeys::Parse(fmt::format("m={};n={};k={}", m, n, k));
    row.time_us =
        5 + static_cast<double>(m * n * k) / 7e6 * (1 + 0.05 * static_cast<double>(i % 3));
    rows.push_back(row);
  }
  const KernelFitter fitter;
  const auto once = fitter.Fit(rows, {}), twice = fitter.Fit(rows, {});
  ASSERT_TRUE(once.ok() && twice.ok()) << once.status();
  ASSERT_FALSE((*once)->SideFiles().empty());  // a residual was learnt
  EXPECT_EQ((*once)->ToYaml(), (*twice)->ToYaml());
  EXPECT_EQ((*once)->SideFiles(), (*twice)->SideFiles());
}

class KernelFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    CalibrationHeader header;
    header.kind = "kernel";
    header.platform = "a100-pcie-40gb";
    header.date = "2026-01-01";
    header.command = "test";
    yaml_ = HeaderYaml(header) + KernelModelsYaml(Fitted());
    Write("kernels.yaml", yaml_);
    Write("kernels.pb", KernelResidualBytes(Fitted()));
  }
  void Write(const char* name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  std::string Error() {
    const auto loaded = LoadKernelModels((folder_ / "kernels.yaml").string());
    return loaded.ok() ? "" : std::string(loaded.status().message());
  }
  void Replace(const std::string& from, const std::string& to) {
    std::string text = yaml_;
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos);
    Write("kernels.yaml", text.replace(at, from.size(), to));
  }
  const TempFolder temporary_;
  const std::filesystem::path folder_ = temporary_.path();
  std::string yaml_;
};

TEST_F(KernelFileTest, ReadsBackToTheSameBytes) {
  const auto loaded = LoadKernelModels((folder_ / "kernels.yaml").string());
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(KernelModelsYaml(loaded->models), KernelModelsYaml(Fitted()));
  EXPECT_EQ(KernelResidualBytes(loaded->models), KernelResidualBytes(Fitted()));
  const KernelWork work = Only(ElementwiseOp{123456, 123456});
  EXPECT_EQ(loaded->models.Predict(work, Precision::kFloat32).time,
            Fitted().Predict(work, Precision::kFloat32).time);
}

TEST_F(KernelFileTest, KeepsTheChoiceOfTiles) {
  KernelModel model;
  model.form = KernelForm::kGemm;
  model.key = KeyOf(Only(LinearOp{8, 8, 8}), Precision::kHalf);
  model.gemm = {2, 0.85, 10, 0.8, 2.5, 0.75, 0.5, 0.125};
  model.gemm.reduction_step_us = 0.25;
  model.gemm.narrowest_tile = 8;
  const std::string header = yaml_.substr(0, yaml_.find("models:"));
  const KernelModels models(A100(), {model});
  Write("kernels.yaml", header + KernelModelsYaml(models));
  const auto loaded = LoadKernelModels((folder_ / "kernels.yaml").string());
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(KernelModelsYaml(loaded->models), KernelModelsYaml(models));
  const GemmParameters& read = loaded->models.models()[0].gemm;
  EXPECT_EQ(read.overlap_power, 2.5);
  EXPECT_EQ(read.partial_wave, 0.75);
  EXPECT_EQ(read.wave_us, 0.5);
  EXPECT_EQ(read.choice_spread, 0.125);
  EXPECT_EQ(read.reduction_step_us, 0.25);
  EXPECT_EQ(read.narrowest_tile, 8);
  yaml_ = header + KernelModelsYaml(models);
  Replace("choice_spread: 0.125", "choice_spread: none");
  EXPECT_THAT(Error(), ::testing::HasSubstr("choice_spread is not a positive number"));
  Replace("partial_wave: 0.75", "partial_wave: 1.5");
  EXPECT_THAT(Error(), ::testing::HasSubstr("partial_wave = 1.5"));
  Replace("narrowest_tile: 8", "narrowest_tile: 64");
  EXPECT_THAT(Error(), ::testing::HasSubstr("narrowest_tile = 64"));
}

TEST_F(KernelFileTest, SaysWhatIsWrong) {
  EXPECT_EQ(Error(), "");
  Replace("device: a100-pcie-40gb", "device: abacus");
  EXPECT_THAT(Error(), ::testing::HasSubstr("unknown device 'abacus'"));
  Replace("form: memory", "form: tea-leaves");
  EXPECT_THAT(Error(), ::testing::HasSubstr("form is not gemm or memory"));
  Replace("bandwidth_efficiency: ", "bandwidth_efficiency: -");
  EXPECT_THAT(Error(), ::testing::HasSubstr("bandwidth_efficiency = -"));
  Replace("residual_trees: 1", "residual_trees: 2");
  EXPECT_THAT(Error(), ::testing::HasSubstr("another calibration"));
  Write("kernels.yaml", yaml_);
  Write("kernels.pb", "not a protobuf at all");
  EXPECT_THAT(Error(), ::testing::HasSubstr("kernels.pb"));
  std::filesystem::remove(folder_ / "kernels.pb");
  EXPECT_THAT(Error(), ::testing::HasSubstr("kernels.pb: cannot be opened"));
}

// What no table covers starts cold: 1.12 us, what its device's shortest kernel takes, one trip, and
// a FLOP of each of four elements.
TEST(KernelModels, SmallKernelsTakeWhatTheirStartDoes) {
  const KernelModels models(A100(), {});
  const KernelWork work = Only(ElementwiseOp{1, 1});
  EXPECT_NEAR(models.Predict(work, Precision::kFloat32).time.us(),
              1.12 + ColdStartUs(A100(), 1) + ChainUs(A100(), 1), 1e-3);
}

// A table that repeats an addition finds part of its tensors in the cache; in a job only a
// fifth of the A100's partition of 20 MB has some. 1.2 GB: (1,200 - 4) / (1,555 GB/s x 0.92) = 836
// us, where a table says 1,200 / 1,555 = 772.
TEST(KernelModels, ElementwiseKernelsOfJobsFindTheirTensorsInMemory) {
  KernelModel model;
  model.form = KernelForm::kMemory;
  KernelWork work = Only(ElementwiseOp{100'000'000, 200'000'000});
  work.flop = Flop();
  model.key = KeyOf(work, Precision::kFloat32);
  model.memory.base_us = 1;
  model.memory.bandwidth_efficiency = 1;
  const KernelModels models(A100(), {model});
  const auto us = [&] { return models.Predict(work, Precision::kFloat32).time.us(); };
  EXPECT_NEAR(us(), 1 + 1.2e6 / A100().dram_gbps, 1e-2);
  work.trips = 1;
  EXPECT_NEAR(us(), 1 + 1.196e6 / (A100().dram_gbps * 0.92), 1e-2);
}

// Threads that load eight elements at a time hide arithmetic behind them to the power of 4, those
// that load four to that of 2.
TEST(KernelModels, VectorsOfEightHideTheirArithmetic) {
  const KernelModels models(A100(), {});
  KernelWork work = Only(ElementwiseOp{10'000'000, 10'000'000});
  work.trips = 1;
  work.flop = Flop();
  const double base = A100().accelerator.instructions.shortest_kernel.us();
  const auto us = [&] { return models.Predict(work, Precision::kFloat32).time.us(); };
  const double moved = us() - base;
  work.flop = Flop(2e8);
  const double computes = ArithmeticUs(A100(), work.flop);
  const double waits = ColdStartUs(A100(), 1);
  EXPECT_NEAR(us(), base + SmoothMax(std::hypot(moved + base, computes) - base, waits), 0.05);
  work.load_elements = 8;
  EXPECT_NEAR(us(), base + SmoothMax(SmoothSum(moved + base, computes, 4) - base, waits), 0.05);
}

// Blocks of an element-wise kernel are handed out at 0.9 a cycle, and the last one then runs:
// 40,000 take 40,000 / (0.9 x 1,410) = 31.5 us on an A100, however few bytes each moves.
TEST(KernelModels, TheLastBlockOfAnElementwiseKernelRunsWhenAllAreHandedOut) {
  const KernelModels models(A100(), {});
  KernelWork work = Only(ElementwiseOp{1'000'000, 1'000'000});
  work.flop = Flop();
  work.trips = 1;
  work.blocks = 40'000;
  const double base = A100().accelerator.instructions.shortest_kernel.us();
  EXPECT_NEAR(models.Predict(work, Precision::kFloat32).time.us(),
              base + DispatchUs(A100(), work.blocks) + ColdStartUs(A100(), 1), 1e-3);
  EXPECT_NEAR(DispatchUs(A100(), work.blocks), 31.5, 0.1);
}

// Threads that meet after each of their loads leave the memory idle while they wait: both times
// count, to the power of 2; else the longer does.
TEST(KernelModels, StepsAddToWhatTheyMove) {
  const KernelModels models(A100(), {});
  KernelWork work;
  work.kind = KernelKind::kOther;
  work.read = Bytes(100'000'000);
  const auto us = [&] { return models.Predict(work, Precision::kFloat32).time.us(); };
  const double base = A100().accelerator.instructions.shortest_kernel.us(), moved = us() - base;
  work.trips = 97;
  const double waits = ColdStartUs(A100(), 97);
  EXPECT_NEAR(us(), base + SmoothMax(moved, waits), 1e-3);
  work.trips_are_steps = true;
  EXPECT_NEAR(us(), base + std::hypot(moved, waits), 1e-3);
}

}  // namespace
}  // namespace foretrace
