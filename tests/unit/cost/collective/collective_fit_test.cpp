#include "simulator/cost/collective/collective_fit.h"

#include <gtest/gtest.h>

#include <cmath>

namespace foretrace {
namespace {

// 20 us + m x 1.75 / (200 GB/s x ramp): made by the curve itself with known parameters.
CollectiveCurve Truth() {
  CurveSpec spec;
  spec.bus_factor = 1.75;
  spec.start_up_us = 20;
  spec.sigmoid = {1.2, 21, 0.6, 1.1};
  return *CollectiveCurve::Create(spec);
}

std::vector<SizeTime> Sweep(const CollectiveCurve& curve, int low, int high) {
  std::vector<SizeTime> points;
  for (int i = low; i <= high; ++i) points.push_back({std::exp2(i), curve.TimeUs(std::exp2(i))});
  return points;
}

TEST(FitCollectiveCurve, RecoversACurveOfItsOwnForm) {
  const CollectiveCurve truth = Truth();
  const auto fit =
      FitCollectiveCurve(Sweep(truth, 10, 32), 1.75, CurveForm::kCurve, 1);
  ASSERT_TRUE(fit.ok()) << fit.status();
  for (double x = 10; x <= 32; x += 0.37) {
    EXPECT_NEAR(fit->TimeUs(std::exp2(x)) / truth.TimeUs(std::exp2(x)), 1, 0.01) << x;
  }
  // The asymptote holds far outside the measured range.
  EXPECT_NEAR(fit->TimeUs(std::exp2(36)) / truth.TimeUs(std::exp2(36)), 1, 0.03);
}

// The first size of a benchmark may hold a warm-up that no later one does.
TEST(FitCollectiveCurve, TakesASweepWhoseSmallestSizeIsSlowest) {
  const std::vector<SizeTime> points = {{4096, 2062}, {16384, 1}, {65536, 1}, {262144, 1}};
  const auto fit = FitCollectiveCurve(points, 1, CurveForm::kCurve, 1);
  ASSERT_TRUE(fit.ok()) << fit.status();
}

TEST(FitCollectiveCurve, KnotsMeetACleanSweep) {
  std::vector<SizeTime> points = Sweep(Truth(), 15, 30);
  points[5].time_us *= 1.2;  // a protocol switch
  const auto fit = FitCollectiveCurve(points, 1.75, CurveForm::kCurve, 1);
  ASSERT_TRUE(fit.ok()) << fit.status();
  for (const SizeTime& point : points) {
    EXPECT_NEAR(fit->TimeUs(point.bytes) / point.time_us, 1, 2e-3) << point.bytes;
  }
}

TEST(FitCollectiveCurve, ThreeRegionsNeedTwentySizes) {
  EXPECT_FALSE(
      FitCollectiveCurve(Sweep(Truth(), 20, 30), 1.75, CurveForm::kThreeRegion, 1).ok());
  const auto fit = FitCollectiveCurve(Sweep(Truth(), 6, 32), 1.75, CurveForm::kThreeRegion, 1);
  ASSERT_TRUE(fit.ok()) << fit.status();
  double sum = 0;
  for (const SizeTime& point : Sweep(Truth(), 6, 32)) {
    sum += std::abs(fit->TimeUs(point.bytes) / point.time_us - 1) / 27;
  }
  EXPECT_LT(sum, 0.05);
}

TEST(FitCollectiveCurve, NeedsThreeSizes) {
  EXPECT_FALSE(FitCollectiveCurve(Sweep(Truth(), 20, 21), 1.75, CurveForm::kCurve, 1).ok());
  EXPECT_TRUE(FitCollectiveCurve(Sweep(Truth(), 20, 22), 1.75, CurveForm::kCurve, 1).ok());
}

TEST(FitCollectiveCurve, IsDeterministic) {
  const auto a = FitCollectiveCurve(Sweep(Truth(), 10, 30), 1.75, CurveForm::kCurve, 3);
  const auto b = FitCollectiveCurve(Sweep(Truth(), 10, 30), 1.75, CurveForm::kCurve, 3);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->spec().start_up_us, b->spec().start_up_us);
  EXPECT_EQ(a->spec().sigmoid.slope, b->spec().sigmoid.slope);
  ASSERT_EQ(a->spec().knots.size(), b->spec().knots.size());
}

TEST(AdaptCollectiveCurve, CorrectsByALogInterpolatedFactor) {
  const CollectiveCurve prior = Truth();
  // Another machine: 1.5 times as slow at 64 KiB, as fast at 16 MiB, 0.8 times at 1 GiB.
  const std::vector<SizeTime> points = {{std::exp2(16), 1.5 * prior.TimeUs(std::exp2(16))},
                                        {std::exp2(24), prior.TimeUs(std::exp2(24))},
                                        {std::exp2(30), 0.8 * prior.TimeUs(std::exp2(30))}};
  const auto adapted = AdaptCollectiveCurve(prior, points);
  ASSERT_TRUE(adapted.ok()) << adapted.status();
  for (const SizeTime& point : points) {
    EXPECT_NEAR(adapted->TimeUs(point.bytes) / point.time_us, 1, 1e-5);
  }
  EXPECT_NEAR(adapted->TimeUs(std::exp2(12)) / prior.TimeUs(std::exp2(12)), 1.5, 1e-5);
  EXPECT_NEAR(adapted->TimeUs(std::exp2(34)) / prior.TimeUs(std::exp2(34)), 0.8, 1e-5);
  EXPECT_FALSE(AdaptCollectiveCurve(prior, std::span(points).first(2)).ok());
}

}  // namespace
}  // namespace foretrace
