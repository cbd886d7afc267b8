#include "simulator/base/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace foretrace {
namespace {

TEST(Quantile, InterpolatesBetweenOrderStatistics) {
  const std::vector<double> values = {40, 10, 30, 20};  // in any order
  EXPECT_DOUBLE_EQ(Quantile(values, 0), 10);
  EXPECT_DOUBLE_EQ(Quantile(values, 1), 40);
  EXPECT_DOUBLE_EQ(Quantile(values, 0.5), 25);
  EXPECT_DOUBLE_EQ(Quantile(values, 0.1), 13);  // 0.3 of the way from 10 to 20
}

TEST(Quantile, OfOneValueAndOfNone) {
  EXPECT_DOUBLE_EQ(Quantile({7}, 0.9), 7);
  EXPECT_DOUBLE_EQ(Quantile({}, 0.5), 0);
}

TEST(SummarizeErrors, OverAbsoluteErrors) {
  // 1, 2 and 4 % off: geometric mean 2, mean 7/3.
  const std::vector<double> errors = {0.01, -0.02, 0.04};
  const ErrorSummary summary = SummarizeErrors(errors);
  EXPECT_EQ(summary.count, 3u);
  EXPECT_NEAR(summary.gmae_percent, 2, 1e-9);
  EXPECT_NEAR(summary.mape_percent, 7.0 / 3, 1e-9);
  EXPECT_NEAR(summary.min_percent, 1, 1e-9);
  EXPECT_NEAR(summary.max_percent, 4, 1e-9);
  // Deviations of 4/3, 1/3 and 5/3, over all three.
  EXPECT_NEAR(summary.std_percent, std::sqrt(42.0 / 9 / 3), 1e-9);
}

TEST(SummarizeErrors, AnExactHitCountsAsTheFloorInTheGeometricMeanAlone) {
  const std::vector<double> errors = {0, 0.01};
  const ErrorSummary summary = SummarizeErrors(errors);
  EXPECT_NEAR(summary.gmae_percent, std::sqrt(0.04 * 1), 1e-9);
  EXPECT_NEAR(summary.mape_percent, 0.5, 1e-9);
  EXPECT_NEAR(summary.min_percent, 0, 1e-9);
}

TEST(SummarizeErrors, OfNothing) { EXPECT_EQ(SummarizeErrors({}).count, 0u); }

}  // namespace
}  // namespace foretrace
