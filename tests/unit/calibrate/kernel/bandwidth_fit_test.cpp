#include <gtest/gtest.h>

#include "simulator/calibrate/kernel/kernel_fit.h"

namespace foretrace {
namespace {

const GpuPeaks& H100() {
  static const GpuPeaks device = *FindGpuPeaks("h100-sxm5-80gb");
  return device;
}

constexpr KernelKey kKey{KernelKind::kGemm, Precision::kHalf, Direction::kForward, 0};

KernelWork Gemm(int64_t m, int64_t n, int64_t k) {
  return Kernels({LinearOp{m, n, k}, DType::kBFloat16, Direction::kForward}).front();
}

// Large GEMMs, of which those of short depth take a fifth longer than the roofline says.
std::vector<KernelSample> Large(int64_t least) {
  KernelModel truth;
  truth.key = kKey;
  truth.form = KernelForm::kGemm;
  std::vector<KernelSample> samples;
  for (int64_t i = 0; i < 40; ++i) {
    const int64_t depth = 2048 << (i % 3);
    const KernelWork work = Gemm(least + 512 * (i % 8), 4096 + 512 * (i * 3 % 8), depth);
    samples.push_back({work, truth.KernelUs(H100(), work) * (depth == 2048 ? 1.2 : 1), 0});
  }
  return samples;
}

double DecodeUs(const std::vector<KernelSample>& samples) {
  const auto model = FitKernelModel(H100(), kKey, samples, {.with_residual = false});
  EXPECT_TRUE(model.ok()) << model.status();
  return model->KernelUs(H100(), Gemm(1, 8192, 8192));
}

// 8192 x 8192 weights of 2 bytes: 134 MB at 3.35 TB/s are 40.1 us, at 0.8 of that 50.1, and 2 to
// start.
TEST(BandwidthFit, IsNotTakenFromGemmsBoundByArithmetic) {
  EXPECT_NEAR(DecodeUs(Large(4096)), 52.1, 2);
}

// With decodes among the samples that take twice their bytes' time at 0.8, the fit follows them.
TEST(BandwidthFit, IsTakenFromDecodes) {
  std::vector<KernelSample> samples = Large(4096);
  for (int64_t i = 0; i < 20; ++i) samples.push_back({Gemm(1 + i, 8192, 8192), 100, 0});
  EXPECT_NEAR(DecodeUs(samples), 100, 10);
}

}  // namespace
}  // namespace foretrace
