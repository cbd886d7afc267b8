#include "simulator/calibrate/collective/collective_fit.h"

#include <gtest/gtest.h>

#include <cmath>

#include "simulator/calibrate/collective/collective_fitter.h"

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

double CurveUs(const CollectiveCurve& curve, double bytes) {
  return curve.Time(RealBytes(bytes)).us();
}

std::vector<SizeTime> Sweep(const CollectiveCurve& curve, int low, int high) {
  std::vector<SizeTime> points;
  for (int i = low; i <= high; ++i) points.push_back({std::exp2(i), CurveUs(curve, std::exp2(i))});
  return points;
}

// As of every fitter: in the same words, with the forms that there are.
TEST(CollectiveFitter, OtherFormsThanItListsAreRefused) {
  FitOptions options;
  options.form = "spline";
  EXPECT_EQ(CollectiveFitter().Fit({}, options).status().message(),
            "unknown form 'spline'; calibrate collective has curve, three_region");
}

TEST(FitCollectiveCurve, RecoversACurveOfItsOwnForm) {
  const CollectiveCurve truth = Truth();
  const auto fit = FitCollectiveCurve(Sweep(truth, 10, 32), 1.75, CurveForm::kCurve, 1);
  ASSERT_TRUE(fit.ok()) << fit.status();
  for (double x = 10; x <= 32; x += 0.37) {
    EXPECT_NEAR(CurveUs(*fit, std::exp2(x)) / CurveUs(truth, std::exp2(x)), 1, 0.01) << x;
  }
  // The asymptote holds far outside the measured range.
  EXPECT_NEAR(CurveUs(*fit, std::exp2(36)) / CurveUs(truth, std::exp2(36)), 1, 0.03);
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
    EXPECT_NEAR(CurveUs(*fit, point.bytes) / point.time_us, 1, 2e-3) << point.bytes;
  }
}

TEST(FitCollectiveCurve, ThreeRegionsNeedTwentySizes) {
  EXPECT_FALSE(FitCollectiveCurve(Sweep(Truth(), 20, 30), 1.75, CurveForm::kThreeRegion, 1).ok());
  const auto fit = FitCollectiveCurve(Sweep(Truth(), 6, 32), 1.75, CurveForm::kThreeRegion, 1);
  ASSERT_TRUE(fit.ok()) << fit.status();
  double sum = 0;
  for (const SizeTime& point : Sweep(Truth(), 6, 32)) {
    sum += std::abs(CurveUs(*fit, point.bytes) / point.time_us - 1) / 27;
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

// A machine that takes `start` times as long to start and `transfer` times as long to move data.
double OtherUs(const CollectiveCurve& curve, double bytes, double start, double transfer) {
  const double start_up = curve.spec().start_up_us;
  return start * start_up + transfer * (CurveUs(curve, bytes) - start_up);
}

TEST(AdaptCollectiveCurve, ScalesStartUpAndBandwidthApart) {
  const CollectiveCurve prior = Truth();
  std::vector<SizeTime> points;
  for (double x : {14.0, 22.0, 30.0}) {
    points.push_back({std::exp2(x), OtherUs(prior, std::exp2(x), 2, 0.7)});
  }
  const auto adapted = AdaptCollectiveCurve(prior, points, PriorDetail::kKept);
  ASSERT_TRUE(adapted.ok()) << adapted.status();
  // "No change" weighs a thousandth of a point: the factors are found within about a thousandth.
  for (double x = 10; x <= 34; ++x) {
    EXPECT_NEAR(CurveUs(*adapted, std::exp2(x)) / OtherUs(prior, std::exp2(x), 2, 0.7), 1, 5e-3)
        << x;
  }
  EXPECT_FALSE(AdaptCollectiveCurve(prior, std::span(points).first(2), PriorDetail::kKept).ok());
  // A size given twice counts once.
  const std::vector<SizeTime> twice = {points[0], points[0], points[2]};
  EXPECT_FALSE(AdaptCollectiveCurve(prior, twice, PriorDetail::kKept).ok());
}

TEST(AdaptCollectiveCurve, MeetsThePointsWhateverTheyAre) {
  const CollectiveCurve prior = Truth();
  const std::vector<SizeTime> points = {{std::exp2(16), 1.5 * CurveUs(prior, std::exp2(16))},
                                        {std::exp2(24), CurveUs(prior, std::exp2(24))},
                                        {std::exp2(30), 0.8 * CurveUs(prior, std::exp2(30))}};
  for (const PriorDetail detail : {PriorDetail::kKept, PriorDetail::kDropped}) {
    const auto adapted = AdaptCollectiveCurve(prior, points, detail);
    ASSERT_TRUE(adapted.ok()) << adapted.status();
    for (const SizeTime& point : points) {
      EXPECT_NEAR(CurveUs(*adapted, point.bytes) / point.time_us, 1, 1e-5);
    }
  }
}

TEST(AdaptCollectiveCurve, KeepsOrDropsTheMeasuredShape) {
  CurveSpec spec = Truth().spec();
  spec.knots = {{16, 0}, {20, 0.2}, {24, 0}};  // 22 % slower at 1 MiB than the closed form
  const auto prior = CollectiveCurve::Create(spec);
  ASSERT_TRUE(prior.ok()) << prior.status();
  const CollectiveCurve form = Truth();
  std::vector<SizeTime> points;
  for (double x : {14.0, 24.0, 30.0}) points.push_back({std::exp2(x), CurveUs(form, std::exp2(x))});
  const auto kept = AdaptCollectiveCurve(*prior, points, PriorDetail::kKept);
  const auto dropped = AdaptCollectiveCurve(*prior, points, PriorDetail::kDropped);
  ASSERT_TRUE(kept.ok() && dropped.ok());
  EXPECT_NEAR(std::log(CurveUs(*kept, std::exp2(20)) / CurveUs(form, std::exp2(20))), 0.2, 1e-3);
  EXPECT_NEAR(CurveUs(*dropped, std::exp2(20)) / CurveUs(form, std::exp2(20)), 1, 1e-3);
}

}  // namespace
}  // namespace foretrace
