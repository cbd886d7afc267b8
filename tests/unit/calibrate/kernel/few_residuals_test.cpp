#include <gtest/gtest.h>

#include <cmath>

#include "simulator/calibrate/kernel/kernel_fit.h"
#include "simulator/cost/kernel/analytic_gemm.h"

namespace foretrace {
namespace {

const GpuPeaks& P100() {
  static const GpuPeaks device = *FindGpuPeaks("p100-pcie");
  return device;
}

constexpr KernelKey kKey{KernelKind::kGemm, Precision::kFloat32, Direction::kForward, 0};

KernelWork Gemm(int64_t m, int64_t n, int64_t k) {
  return Kernels({LinearOp{m, n, k}, DType::kFloat32, Direction::kForward}).front();
}

// What a GPU does whose operands of 32 Ki columns outrun its caches, and which is else as its file
// says: from that few rows do not stray far, else the residual would take what the roofline lacks.
double TruthUs(const KernelWork& work, double penalty) {
  KernelModel truth;
  truth.key = kKey;
  truth.form = KernelForm::kGemm;
  truth.gemm = AnalyticGemm(P100(), kKey.precision);
  return truth.KernelUs(P100(), work) * (work.k >= 32768 ? penalty : 1);
}

KernelModel Fit(double penalty, bool with_residual) {
  std::vector<KernelSample> samples;
  for (int64_t i = 0; i < 20; ++i) {
    const KernelWork work = Gemm(1024 << (i % 4), 1024 << (i * 3 % 5), 1024 << (i * 2 % 7));
    samples.push_back({work, TruthUs(work, penalty), 0});
  }
  auto model = FitKernelModel(P100(), kKey, samples, {.with_residual = with_residual});
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

double LogError(const KernelModel& model, const KernelWork& work, double penalty) {
  return std::abs(std::log(model.KernelUs(P100(), work) / TruthUs(work, penalty)));
}

TEST(FewResiduals, FollowWhatSizesTake) {
  const KernelWork unseen = Gemm(3072, 3072, 49152), usual = Gemm(3072, 3072, 3072);
  EXPECT_GT(LogError(Fit(2.5, false), unseen, 2.5), 0.4);
  const KernelModel fitted = Fit(2.5, true);
  EXPECT_LT(LogError(fitted, unseen, 2.5), 0.25);
  EXPECT_LT(LogError(fitted, usual, 2.5), 0.1);
}

// What grows from size to size: times over the roofline's as the root of the reduction.
TEST(FewResiduals, FollowWhatGrowsBetweenSizes) {
  const auto truth_us = [](const KernelWork& work) {
    return TruthUs(work, 1) * std::sqrt(static_cast<double>(work.k) / 8192);
  };
  std::vector<KernelSample> samples;
  for (int64_t i = 0; i < 20; ++i) {
    const KernelWork work = Gemm(1024 << (i % 4), 1024 << (i * 3 % 5), 1024 << (i * 2 % 7));
    samples.push_back({work, truth_us(work), 0});
  }
  const auto model = FitKernelModel(P100(), kKey, samples, {});
  ASSERT_TRUE(model.ok()) << model.status();
  // Halfway between reductions that were measured, an octave apart, steps are off by up to half of
  // log(2) / 2, 0.17.
  double sum = 0;
  int count = 0;
  for (const int64_t k : {1536, 3072, 6144, 12288, 24576, 49152}) {
    for (const int64_t m : {1536, 3072, 6144}) {
      const KernelWork work = Gemm(m, 3072, k);
      sum += std::abs(std::log(model->KernelUs(P100(), work) / truth_us(work)));
      ++count;
    }
  }
  EXPECT_LT(sum / count, 0.15);
}

// Twenty rows of 1 ms and more on a P100 that reaches 0.9 of what its file says and else runs as it
// says: what other devices showed must not hold the fit back, nor rows that say nothing of steps
// let those go astray.
TEST(FewRows, AreReadBesideWhatOtherDevicesShowed) {
  KernelModel truth;
  truth.key = kKey;
  truth.form = KernelForm::kGemm;
  truth.gemm = AnalyticGemm(P100(), kKey.precision);
  truth.gemm.compute_efficiency *= 0.9;
  std::vector<KernelSample> samples;
  for (int64_t i = 0; i < 20; ++i) {
    const KernelWork work = Gemm(2048 << (i % 3), 2048 << (i * 3 % 3), 1024 << (i % 2));
    samples.push_back({work, truth.KernelUs(P100(), work), 0});
  }
  const auto model = FitKernelModel(P100(), kKey, samples, {.with_residual = false});
  ASSERT_TRUE(model.ok()) << model.status();
  const GemmParameters& known = truth.gemm;
  EXPECT_NEAR(model->gemm.compute_efficiency / known.compute_efficiency, 1, 0.02);
  EXPECT_NEAR(model->gemm.reduction_step_us / known.reduction_step_us, 1, 0.05);
  // One row of tiles, whose steps bound it.
  const KernelWork skinny = Gemm(32, 512, 8192);
  EXPECT_NEAR(model->KernelUs(P100(), skinny) / truth.KernelUs(P100(), skinny), 1, 0.05);
}

TEST(FewResiduals, AddNothingWhereTheRooflineHolds) {
  for (const int64_t size : {1024, 3072, 16384}) {
    const KernelWork work = Gemm(size, size, size);
    EXPECT_NEAR(LogError(Fit(1, true), work, 1), LogError(Fit(1, false), work, 1), 0.02) << size;
  }
}

}  // namespace
}  // namespace foretrace
