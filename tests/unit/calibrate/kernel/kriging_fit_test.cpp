#include "simulator/calibrate/kernel/kriging_fit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace foretrace {
namespace {

constexpr ShapeDevice kDevice = {132, 50};

// 12 x 12 weight matrices of one m, all sizes multiples of 512.
std::vector<MeasuredShape> Grid(int64_t m, float (*residual)(int64_t n, int64_t k)) {
  std::vector<MeasuredShape> shapes;
  for (int64_t n = 512; n <= 6144; n += 512) {
    for (int64_t k = 512; k <= 6144; k += 512) shapes.push_back({m, n, k, 1, residual(n, k)});
  }
  return shapes;
}

float Smooth(int64_t n, int64_t k) {
  return 0.1f * static_cast<float>(std::log2(static_cast<double>(n)) -
                                   0.5 * std::log2(static_cast<double>(k)));
}

TEST(KrigingFit, FindsWhatWasHeldOut) {
  std::vector<MeasuredShape> shapes = Grid(4096, Smooth);
  std::erase_if(shapes, [](const MeasuredShape& s) { return (s.n + 3 * s.k) / 512 % 5 == 0; });
  const auto fitted = FitShapeKriging(kDevice, shapes);
  ASSERT_TRUE(fitted.ok());
  const ShapeKriging* kriging = &fitted->kriging;
  for (const MeasuredShape& s : Grid(4096, Smooth)) {
    // Residuals from -0.36 to 0.81; what a measurement may err by is smoothed.
    EXPECT_NEAR(kriging->LogResidual(s.m, s.n, s.k), static_cast<double>(s.log_residual), 0.028);
  }
}

TEST(KrigingFit, OneBadKernelDoesNotMoveItsNeighbours) {
  // One shape takes 1.5 times as long as the smooth rest, log 0.41: five times the noise. Its
  // neighbour half an octave away moves by less than 2 %.
  std::vector<MeasuredShape> shapes = Grid(4096, Smooth);
  for (MeasuredShape& s : shapes) {
    if (s.n == 2048 && s.k == 2048) s.log_residual += 0.41f;
  }
  const auto fitted = FitShapeKriging(kDevice, shapes);
  ASSERT_TRUE(fitted.ok());
  const ShapeKriging* kriging = &fitted->kriging;
  EXPECT_NEAR(kriging->LogResidual(4096, 2048, 3072), static_cast<double>(Smooth(2048, 3072)),
              0.02);
  EXPECT_NEAR(kriging->LogResidual(4096, 2048, 2048), static_cast<double>(Smooth(2048, 2048)), 0.1);
}

TEST(KrigingFit, SaysOfEachShapeWhatTheOthersWould) {
  // Without outliers all measurements keep the same noise, so that leaving one out is fitting the
  // others.
  const std::vector<MeasuredShape> shapes = Grid(4096, Smooth);
  const auto all = FitShapeKriging(kDevice, shapes);
  ASSERT_TRUE(all.ok());
  ASSERT_EQ(all->left_out.size(), shapes.size());
  for (const size_t i : {size_t{0}, size_t{70}, size_t{143}}) {
    std::vector<MeasuredShape> others = shapes;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    const auto fitted = FitShapeKriging(kDevice, others);
    ASSERT_TRUE(fitted.ok());
    EXPECT_NEAR(all->left_out[i],
                fitted->kriging.LogResidual(shapes[i].m, shapes[i].n, shapes[i].k), 2e-3);
  }
}

TEST(KrigingFit, LeavesOutWhatSaysTooLittle) {
  // 64 matrices are needed: 63 of one m, and a batch of GEMMs, say nothing.
  std::vector<MeasuredShape> shapes = Grid(4096, Smooth);
  shapes.resize(ShapeKriging::kMinPoints - 1);
  shapes.push_back({4096, 6144, 6144, 8, 0.1f});
  ASSERT_TRUE(FitShapeKriging(kDevice, shapes).ok());
  EXPECT_TRUE(FitShapeKriging(kDevice, shapes)->kriging.empty());
  shapes.push_back({4096, 6144, 6144, 1, 0.1f});
  EXPECT_EQ(FitShapeKriging(kDevice, shapes)->kriging.slices().size(), 1u);
}

}  // namespace
}  // namespace foretrace
