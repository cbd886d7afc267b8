#include "simulator/cost/collective/collective_curve.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>

#include "simulator/calibrate/collective/collective_fit.h"

namespace foretrace {
namespace {

double Between(double low, double high) {
  return low + (high - low) * *rc::gen::inRange(0, 100001) * 1e-5;
}

TEST(CollectiveCurveProperty, EveryAcceptedCurveIsMonotoneAndContinuous) {
  const bool holds = rc::check("time never falls with size", [] {
    CurveSpec spec;
    spec.bus_factor = Between(0.5, 2);
    spec.start_up_us = Between(0.1, 200);
    spec.sigmoid.height = Between(0.01, 5);
    spec.sigmoid.midpoint = Between(0, 40);
    spec.sigmoid.slope = Between(0, 1) * MaxMonotoneSlope(spec.sigmoid.height);
    spec.sigmoid.offset = Between(-3, 3);
    double x = Between(4, 12);
    for (int i = *rc::gen::inRange(0, 12); i > 0; --i) {
      spec.knots.push_back({x, Between(-0.4, 0.4)});
      x += Between(0.01, 4);
    }
    const auto curve = CollectiveCurve::Create(spec);
    RC_ASSERT(curve.ok());
    double last = 0;
    for (double at = 0; at < 40; at += 0.01) {
      const double time = curve->Time(RealBytes(std::exp2(at))).us();
      RC_ASSERT(std::isfinite(time) && time > 0);
      RC_ASSERT(time >= last * (1 - 1e-12));
      last = time;
    }
    for (const CurveKnot& knot : spec.knots) {
      const double below = curve->Time(RealBytes(std::exp2(knot.log2_bytes - 1e-9))).us();
      const double above = curve->Time(RealBytes(std::exp2(knot.log2_bytes + 1e-9))).us();
      RC_ASSERT(std::abs(above / below - 1) < 1e-5);
    }
  });
  EXPECT_TRUE(holds);
}

TEST(CollectiveCurveProperty, FitsOfArbitraryTimesAreMonotone) {
  const bool holds = rc::check("fits are monotone whatever the data", [] {
    std::vector<SizeTime> points;
    const int count = *rc::gen::inRange(3, 12);
    for (int i = 0; i < count; ++i) points.push_back({std::exp2(12 + 2 * i), Between(1, 1e4)});
    const auto curve = FitCollectiveCurve(points, 1, CurveForm::kCurve, 1);
    RC_ASSERT(curve.ok());
    double last = 0;
    for (double at = 6; at < 40; at += 0.1) {
      const double time = curve->Time(RealBytes(std::exp2(at))).us();
      RC_ASSERT(std::isfinite(time) && time >= last * (1 - 1e-12));
      last = time;
    }
  });
  EXPECT_TRUE(holds);
}

}  // namespace
}  // namespace foretrace
