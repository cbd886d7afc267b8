#include "simulator/calibrate/kernel/residual_fit.h"

#include <gtest/gtest.h>

#include <vector>

namespace foretrace {
namespace {

// GEMMs of 64 to 704 rows and columns, of which those wider than high take `wide` times as long.
std::vector<KernelSample> Gemms(double wide) {
  std::vector<KernelSample> samples;
  for (int64_t m = 64; m < 768; m += 64) {
    for (int64_t n = 64; n < 768; n += 64) {
      const KernelWork work =
          Kernels({LinearOp{m, n, 512}, DType::kBFloat16, Direction::kForward}).front();
      samples.push_back({work, static_cast<double>(m * n) * (m < n ? wide : 1), 0});
    }
  }
  return samples;
}

// 11 x 11 sizes are 55 pairs, enough to judge by.
TEST(TurnsAlike, WhereNeitherSideIsFaster) {
  EXPECT_TRUE(TurnsAlike(Gemms(1)));
  EXPECT_TRUE(TurnsAlike(Gemms(0.995)));
  EXPECT_FALSE(TurnsAlike(Gemms(1.04)));  // aiconfigurator's H100
}

TEST(TurnsAlike, NotOfTooFewPairs) {
  const std::vector<KernelSample> samples = Gemms(1);
  EXPECT_FALSE(TurnsAlike(std::span(samples).first(66)));  // m to 384: 6 x 11, 15 pairs
  EXPECT_FALSE(TurnsAlike({}));
}

}  // namespace
}  // namespace foretrace
