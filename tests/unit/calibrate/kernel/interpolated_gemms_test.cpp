// GEMMs whose shapes are interpolated: by kriging and trees, and by trees alone, half each.

#include <gtest/gtest.h>

#include <cmath>

#include "simulator/calibrate/kernel/kernel_fit.h"

namespace foretrace {
namespace {

constexpr KernelKey kKey{KernelKind::kGemm, Precision::kHalf, Direction::kForward, 0};

const GpuPeaks& A100() {
  static const GpuPeaks device = *FindGpuPeaks("a100-sxm4-80gb");
  return device;
}

KernelWork Gemm(int64_t m, int64_t n, int64_t k) {
  return Kernels({LinearOp{m, n, k}, DType::kBFloat16, Direction::kForward}).front();
}

// A library that splits the reduction from 1,000 on, and whose GEMMs are slower the wider.
double TruthUs(const KernelWork& work) {
  KernelModel truth;
  truth.key = kKey;
  truth.form = KernelForm::kGemm;
  const double wide = 0.05 * std::log2(static_cast<double>(work.n) / 1024);
  return truth.KernelUs(A100(), work) * std::exp(wide + (work.k < 1000 ? 0.3 : 0));
}

KernelModel Fit(double (*truth_us)(const KernelWork&)) {
  std::vector<KernelSample> samples;
  for (const int64_t m : {16, 256, 2048}) {
    for (int64_t i = 0; i < 12; ++i) {
      for (int64_t j = 0; j < 12; ++j) {
        if ((i + j) % 3 == 2) continue;
        const KernelWork work = Gemm(m, 256 * (i + 1), 160 * (j + 1));
        samples.push_back({work, truth_us(work), 0});
      }
    }
  }
  auto model = FitKernelModel(A100(), kKey, samples, {});
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

double LogError(const KernelModel& model, const KernelWork& work) {
  return std::abs(std::log(model.KernelUs(A100(), work) / TruthUs(work)));
}

TEST(InterpolatedGemms, FollowAStepBetweenShapes) {
  const KernelModel model = Fit(TruthUs);
  ASSERT_EQ(model.kriging.slices().size(), 3u);
  EXPECT_LT(model.kriging_share, 1);  // kriging smooths the step over, as matrices held out show
  EXPECT_EQ(model.residual.feature_count(), model.feature_count());
  EXPECT_LT(LogError(model, Gemm(256, 256, 160)), 0.01);  // measured
  for (const int64_t k : {480, 960, 1440}) {              // of no matrix measured with that n
    EXPECT_LT(LogError(model, Gemm(256, 256 * 12, k)), 0.05) << k;
    EXPECT_LT(LogError(model, Gemm(16, 256 * 3, k)), 0.05) << k;
  }
}

// What varies smoothly with the shape and by no feature of the trees' alone.
double SmoothUs(const KernelWork& work) {
  const double n = std::log2(static_cast<double>(work.n)),
               k = std::log2(static_cast<double>(work.k));
  return TruthUs(work) * (work.k < 1000 ? std::exp(-0.3) : 1) * std::exp(0.2 * std::sin(n + 2 * k));
}

TEST(InterpolatedGemms, TrustKrigingWhereItInterpolates) {
  EXPECT_GE(Fit(SmoothUs).kriging_share, 0.5);
}

}  // namespace
}  // namespace foretrace
