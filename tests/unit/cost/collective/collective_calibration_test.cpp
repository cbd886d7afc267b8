#include "simulator/cost/collective/collective_calibration.h"

#include <gtest/gtest.h>

#include <cmath>

namespace foretrace {
namespace {

// No start-up time and a flat sigmoid: exactly `gbps` of bus bandwidth at every size.
CollectiveModel Model(CollectiveOp op, int32_t ranks, int32_t nodes, double gbps,
                      int64_t min_bytes = 1024, int64_t max_bytes = 1 << 30) {
  CurveSpec spec;
  spec.bus_factor = BusFactor(op, ranks);
  spec.sigmoid = {0, 20, 0, std::log10(gbps)};
  CollectiveModel model;
  model.op = op;
  model.ranks = ranks;
  model.nodes = nodes;
  model.inplace = op == CollectiveOp::kAllReduce;
  model.min_bytes = Bytes(min_bytes);
  model.max_bytes = Bytes(max_bytes);
  model.curve = *CollectiveCurve::Create(spec);
  return model;
}

CollectiveCalibration Calibration(Interconnect interconnect, std::vector<CollectiveModel> models) {
  CalibrationHeader header;
  header.interconnect = interconnect;
  return CollectiveCalibration(std::move(header), std::move(models));
}

double TimeUs(const CollectiveEstimator& estimator, int64_t bytes) {
  return estimator.Time(Bytes(bytes)).time.us();
}

TEST(CollectiveCalibration, AnswersMeasuredRanksExactly) {
  const auto calibration =
      Calibration(Interconnect::kMesh, {Model(CollectiveOp::kAllReduce, 8, 1, 100)});
  const auto estimator = calibration.Resolve(CollectiveOp::kAllReduce, 8, 1);
  ASSERT_TRUE(estimator.covered());
  const Estimate estimate = estimator.Time(Bytes(1000000));
  // 1e6 x 1.75 / 100 GB/s = 17.5 us.
  EXPECT_NEAR(estimate.time.us(), 17.5, 1e-6);
  EXPECT_EQ(estimate.source, EstimateSource::kCalibrated);
  EXPECT_FALSE(estimate.extrapolated);
}

TEST(CollectiveCalibration, FlagsSizesOutsideTheRange) {
  const auto calibration =
      Calibration(Interconnect::kMesh, {Model(CollectiveOp::kAllReduce, 8, 1, 100)});
  const auto estimator = calibration.Resolve(CollectiveOp::kAllReduce, 8, 1);
  EXPECT_TRUE(estimator.Time(Bytes(1023)).extrapolated);
  EXPECT_FALSE(estimator.Time(Bytes(1024)).extrapolated);
  EXPECT_FALSE(estimator.Time(Bytes(1 << 30)).extrapolated);
  EXPECT_TRUE(estimator.Time(Bytes((1 << 30) + 1)).extrapolated);
  // Absurd sizes stay finite and positive.
  EXPECT_GT(estimator.Time(Bytes(INT64_MAX)).time.ps(), 0);
  EXPECT_GE(estimator.Time(Bytes(0)).time.ps(), 0);
}

TEST(CollectiveCalibration, InterpolatesBusBandwidthInLogRanksOnASwitch) {
  const auto calibration = Calibration(
      Interconnect::kSwitch,
      {Model(CollectiveOp::kAllReduce, 2, 1, 50), Model(CollectiveOp::kAllReduce, 8, 1, 200)});
  // 4 lies half-way between 2 and 8 in log: bandwidth sqrt(50 x 200) = 100 GB/s; factor 1.5.
  EXPECT_NEAR(TimeUs(calibration.Resolve(CollectiveOp::kAllReduce, 4, 1), 1000000), 15, 1e-6);
  EXPECT_FALSE(calibration.Resolve(CollectiveOp::kAllReduce, 4, 1).Time(Bytes(4096)).extrapolated);
  // Beyond the largest: its bandwidth, factor 2 x 15/16, flagged.
  const auto beyond = calibration.Resolve(CollectiveOp::kAllReduce, 16, 1);
  EXPECT_NEAR(TimeUs(beyond, 1000000), 1.875 * 5, 1e-6);
  EXPECT_TRUE(beyond.Time(Bytes(4096)).extrapolated);
}

// 10 us among 2 ranks as among 8, but for 4 KiB at 100 GB/s, 0.04 to 0.07 us: among 4 it is 10 us
// and not, by the bus factors 1, 1.5 and 1.75, a factor 1.5 / sqrt(1.75) = 1.13 more.
TEST(CollectiveCalibration, LatencyDoesNotGoWithTheBusFactor) {
  const auto late = [](int32_t ranks) {
    CollectiveModel model = Model(CollectiveOp::kAllReduce, ranks, 1, 100);
    CurveSpec spec = model.curve.spec();
    spec.start_up_us = 10;
    model.curve = *CollectiveCurve::Create(spec);
    return model;
  };
  const auto calibration = Calibration(Interconnect::kSwitch, {late(2), late(8)});
  const auto estimator = calibration.Resolve(CollectiveOp::kAllReduce, 4, 1);
  EXPECT_NEAR(TimeUs(estimator, 4096), 10.055, 0.03);
  // 1 GiB is all bandwidth: 1.5 x 2^30 / 100 GB/s and the latency.
  EXPECT_NEAR(TimeUs(estimator, 1 << 30), 16116, 20);
}

TEST(CollectiveCalibration, NeverInterpolatesOnAMesh) {
  for (const Interconnect interconnect : {Interconnect::kMesh, Interconnect::kUnknown}) {
    const auto calibration = Calibration(
        interconnect,
        {Model(CollectiveOp::kAllReduce, 2, 1, 50), Model(CollectiveOp::kAllReduce, 8, 1, 200)});
    EXPECT_FALSE(calibration.Resolve(CollectiveOp::kAllReduce, 4, 1).covered());
    EXPECT_TRUE(calibration.Resolve(CollectiveOp::kAllReduce, 8, 1).covered());
  }
}

TEST(CollectiveCalibration, KeepsPlacementsApart) {
  const auto calibration = Calibration(
      Interconnect::kSwitch,
      {Model(CollectiveOp::kAllReduce, 8, 1, 200), Model(CollectiveOp::kAllReduce, 16, 2, 40),
       Model(CollectiveOp::kAllReduce, 64, 8, 20), Model(CollectiveOp::kAllReduce, 8, 2, 10)});
  EXPECT_NEAR(TimeUs(calibration.Resolve(CollectiveOp::kAllReduce, 8, 2), 1000000), 175, 1e-6);
  // 32 ranks on 4 nodes: half-way in log between 16 on 2 and 64 on 8: sqrt(40 x 20) GB/s.
  EXPECT_NEAR(TimeUs(calibration.Resolve(CollectiveOp::kAllReduce, 32, 4), 1000000),
              2.0 * 31 / 32 * 1000 / std::sqrt(800), 1e-5);
  // No sweep with 16 ranks per node.
  EXPECT_FALSE(calibration.Resolve(CollectiveOp::kAllReduce, 32, 2).covered());
  EXPECT_FALSE(calibration.Resolve(CollectiveOp::kAllGather, 8, 1).covered());
  EXPECT_FALSE(calibration.Resolve(CollectiveOp::kAllReduce, 1, 1).covered());
  EXPECT_FALSE(calibration.Resolve(CollectiveOp::kAllReduce, 4, 8).covered());
}

TEST(CollectiveCalibration, PrefersTheUsualPlaceThenTheCoveringRange) {
  CollectiveModel out_of_place = Model(CollectiveOp::kAllReduce, 8, 1, 50);
  out_of_place.inplace = false;
  const CollectiveModel large = Model(CollectiveOp::kAllReduce, 8, 1, 100, 1 << 20, 1 << 30);
  const auto calibration = Calibration(Interconnect::kSwitch, {out_of_place, large});
  const auto estimator = calibration.Resolve(CollectiveOp::kAllReduce, 8, 1);
  EXPECT_NEAR(TimeUs(estimator, 2000000), 35, 1e-6);  // in-place, 100 GB/s
  EXPECT_NEAR(TimeUs(estimator, 100000), 3.5, 1e-6);  // only the out-of-place sweep covers it
  EXPECT_FALSE(estimator.Time(Bytes(100000)).extrapolated);
}

}  // namespace
}  // namespace foretrace
