#include "simulator/calibrate/collective/sweep_smoothing.h"

#include <gtest/gtest.h>

#include <cmath>

namespace foretrace {
namespace {

std::vector<SizeTime> Line(int count) {
  std::vector<SizeTime> points;
  for (int i = 1; i <= count; ++i) points.push_back({i * 1e6, i * 10.0});
  return points;
}
const LogForm kExactLine = [](double bytes) { return std::log(bytes * 1e-5); };

TEST(WithoutOutliers, DropsAPointThatStandsOut) {
  std::vector<SizeTime> points = Line(40);
  points[20].time_us *= 2;
  const auto kept = WithoutOutliers(points, kExactLine);
  ASSERT_EQ(kept.size(), 39u);
  for (const SizeTime& point : kept) EXPECT_NEAR(point.time_us, point.bytes * 1e-5, 1e-9);
}

TEST(WithoutOutliers, KeepsSparseAndCleanSweeps) {
  EXPECT_EQ(WithoutOutliers(Line(40), kExactLine).size(), 40u);
  // Powers of two: one neighbour within 3/4 octave, too few to judge.
  std::vector<SizeTime> sparse;
  for (int i = 10; i < 30; ++i) sparse.push_back({std::exp2(i), i == 20 ? 500.0 : 10.0});
  EXPECT_EQ(WithoutOutliers(sparse, {}).size(), 20u);
}

TEST(WithoutSpikes, DropsASizeThatBothNeighboursBeat) {
  // 128 B to 1 KiB as one framework's all-reduce took them: 512 B ran into something.
  const std::vector<SizeTime> points = {
      {128, 4.8}, {256, 3.3}, {512, 38}, {1024, 3.5}, {2048, 3.5}};
  const auto kept = WithoutSpikes(points);
  ASSERT_EQ(kept.size(), 4u);
  for (const SizeTime& point : kept) EXPECT_LT(point.time_us, 5);
}

TEST(WithoutSpikes, KeepsWhatGrowsAndWhatSwitchesProtocols) {
  // 16 to 30 us and down to 16: another protocol from 4,096 on; the first and the last have one
  // side.
  const std::vector<SizeTime> points = {{512, 90},  {1024, 16}, {2048, 30},
                                        {4096, 16}, {8192, 20}, {16384, 200}};
  EXPECT_EQ(WithoutSpikes(points).size(), points.size());
  // Repeats count by their median: one of three was slow, which WithoutOutliers judges.
  const std::vector<SizeTime> repeats = {{1, 5}, {2, 6}, {2, 70}, {2, 6}, {4, 7}};
  EXPECT_EQ(WithoutSpikes(repeats).size(), repeats.size());
  // Of three or four sizes nothing says which is odd, and a curve needs three.
  const std::vector<SizeTime> few = {{4096, 4}, {16384, 900}, {65536, 6}};
  EXPECT_EQ(WithoutSpikes(few).size(), few.size());
}

TEST(MergeNeighbours, AveragesWithinASixteenthOfAnOctave) {
  // 1000 and 1020 lie within 1/16 octave (4.4 %), 2000 does not.
  const std::vector<SizeTime> points = {{1020, 12}, {1000, 10}, {2000, 20}};
  const auto merged = MergeNeighbours(points, {});
  ASSERT_EQ(merged.size(), 2u);
  EXPECT_NEAR(merged[0].log2_bytes, 0.5 * (std::log2(1000) + std::log2(1020)), 1e-12);
  EXPECT_NEAR(merged[0].log_time, std::log(std::sqrt(120)), 1e-12);
  EXPECT_EQ(merged[0].weight, 2);
  EXPECT_NEAR(merged[1].log_time, std::log(20), 1e-12);
}

TEST(MergeNeighbours, KeepsTheSlopeOfADenseSweep) {
  for (const SmoothedPoint& point : MergeNeighbours(Line(2000), kExactLine)) {
    EXPECT_NEAR(std::exp(point.log_time) / (std::exp2(point.log2_bytes) * 1e-5), 1, 1e-9);
  }
}

TEST(MakeNonDecreasing, PoolsViolators) {
  // Weights 1, 1, 2: 3 and 1 pool to 2; then 2 (weight 2) against 1.5 (weight 2) to 1.75.
  std::vector<SmoothedPoint> points = {{1, 3, 1}, {2, 1, 1}, {3, 1.5, 2}, {4, 5, 1}};
  MakeNonDecreasing(points);
  EXPECT_DOUBLE_EQ(points[0].log_time, 1.75);
  EXPECT_DOUBLE_EQ(points[1].log_time, 1.75);
  EXPECT_DOUBLE_EQ(points[2].log_time, 1.75);
  EXPECT_DOUBLE_EQ(points[3].log_time, 5);
}

}  // namespace
}  // namespace foretrace
