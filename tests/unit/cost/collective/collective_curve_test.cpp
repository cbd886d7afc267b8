#include "simulator/cost/collective/collective_curve.h"

#include <gtest/gtest.h>

#include <cmath>

namespace foretrace {
namespace {

TEST(BusFactor, IsThatOfNcclTests) {
  EXPECT_DOUBLE_EQ(BusFactor(CollectiveOp::kAllReduce, 8), 1.75);
  EXPECT_DOUBLE_EQ(BusFactor(CollectiveOp::kAllGather, 8), 0.875);
  EXPECT_DOUBLE_EQ(BusFactor(CollectiveOp::kReduceScatter, 4), 0.75);
  EXPECT_DOUBLE_EQ(BusFactor(CollectiveOp::kAllToAll, 2), 0.5);
  EXPECT_DOUBLE_EQ(BusFactor(CollectiveOp::kBroadcast, 8), 1);
  EXPECT_DOUBLE_EQ(BusFactor(CollectiveOp::kSendRecv, 2), 1);
}

double CurveUs(const CollectiveCurve& curve, double bytes) {
  return curve.Time(RealBytes(bytes)).us();
}

// A flat sigmoid (k = 0) is L/2 + b = 2: 100 GB/s = 1e5 bytes per us. all-reduce of 8: factor 1.75.
CurveSpec AlphaBeta() {
  CurveSpec spec;
  spec.bus_factor = 1.75;
  spec.start_up_us = 20;
  spec.sigmoid = {1, 20, 0, 1.5};
  return spec;
}

TEST(CollectiveCurve, WithAFlatSigmoidIsLatencyPlusBandwidth) {
  const auto curve = CollectiveCurve::Create(AlphaBeta());
  ASSERT_TRUE(curve.ok()) << curve.status();
  // 1e6 bytes x 1.75 / 1e5 bytes per us = 17.5 us.
  EXPECT_NEAR(CurveUs(*curve, 1e6), 20 + 17.5, 1e-9);
  EXPECT_NEAR(CurveUs(*curve, 1e9), 20 + 17500, 1e-6);
  EXPECT_NEAR(CurveUs(*curve, 0), 20 + 1.75e-5, 1e-9);  // as one byte
}

TEST(CollectiveCurve, SigmoidIsThePapers) {
  // L / (1 + e^(-k (x - x0))) + b at x0 is L/2 + b; far above it is L + b.
  const BandwidthSigmoid sigmoid{2, 20, 0.5, -1};
  EXPECT_NEAR(sigmoid(20), 0, 1e-12);
  EXPECT_NEAR(sigmoid(22), 2 / (1 + std::exp(-1)) - 1, 1e-12);
  EXPECT_NEAR(sigmoid(200), 1, 1e-12);
}

TEST(CollectiveCurve, MeetsItsKnots) {
  CurveSpec spec = AlphaBeta();
  spec.knots = {{20, 0.1}, {22, -0.2}, {24, 0.05}};
  const auto plain = CollectiveCurve::Create(AlphaBeta());
  const auto curve = CollectiveCurve::Create(spec);
  ASSERT_TRUE(curve.ok()) << curve.status();
  for (const CurveKnot& knot : spec.knots) {
    const double bytes = std::exp2(knot.log2_bytes);
    EXPECT_NEAR(CurveUs(*curve, bytes), CurveUs(*plain, bytes) * std::exp(knot.log_residual), 1e-9);
  }
  // Outside, the closed form scaled by the outermost knot.
  EXPECT_NEAR(CurveUs(*curve, 1 << 10) / CurveUs(*plain, 1 << 10), std::exp(0.1), 1e-12);
  EXPECT_NEAR(CurveUs(*curve, 1 << 30) / CurveUs(*plain, 1 << 30), std::exp(0.05), 1e-12);
}

TEST(CollectiveCurve, ThreeRegionsMeet) {
  CurveSpec spec;
  spec.form = CurveForm::kThreeRegion;
  spec.start_up_us = 10;
  spec.sigmoid = {2, 20, 0.4, 0};
  // Continuity at m1: m1 / 10^s(log2 m1) / 1e3 = 10 us fixes b; at m2: the bandwidth.
  spec.m1_bytes = 1 << 16;
  spec.m2_bytes = 1 << 26;
  spec.sigmoid.offset = std::log10(65536 / (10 * 1e3)) - spec.sigmoid(16);
  const double at_m2 = 67108864 / (std::pow(10, spec.sigmoid(26)) * 1e3);
  spec.max_bandwidth_gbps = 67108864 / ((at_m2 - 10) * 1e3);
  const auto curve = CollectiveCurve::Create(spec);
  ASSERT_TRUE(curve.ok()) << curve.status();
  EXPECT_EQ(CurveUs(*curve, 4), 10);
  EXPECT_EQ(CurveUs(*curve, 65536), 10);
  EXPECT_NEAR(CurveUs(*curve, 65537), 10, 0.01);
  EXPECT_NEAR(CurveUs(*curve, 67108863), at_m2, 1e-3);
  EXPECT_NEAR(CurveUs(*curve, 67108864), at_m2, 1e-9);
  // Region 3 is linear in size beyond the start-up time.
  EXPECT_NEAR(CurveUs(*curve, 2.0 * 67108864) - 10, 2 * (at_m2 - 10), 1e-9);
}

TEST(CollectiveCurve, RefusesWhatIsNotMonotoneOrFinite) {
  CurveSpec steep = AlphaBeta();
  steep.sigmoid = {4, 20, 2, 0};
  EXPECT_FALSE(CollectiveCurve::Create(steep).ok());
  CurveSpec nan = AlphaBeta();
  nan.start_up_us = std::nan("");
  EXPECT_FALSE(CollectiveCurve::Create(nan).ok());
  CurveSpec disordered = AlphaBeta();
  disordered.knots = {{22, 0}, {20, 0}};
  EXPECT_FALSE(CollectiveCurve::Create(disordered).ok());
  CurveSpec wild = AlphaBeta();
  wild.knots = {{20, 1e9}};
  EXPECT_FALSE(CollectiveCurve::Create(wild).ok());
}

}  // namespace
}  // namespace foretrace
