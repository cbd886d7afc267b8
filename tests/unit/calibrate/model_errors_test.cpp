#include <gtest/gtest.h>

#include "simulator/calibrate/fitter.h"

namespace foretrace {
namespace {

// Errors of one model: 10, -20, 30, -40 and 50 %. The median of their sizes is 30 %; the ninth
// tenth lies at position 0.9 x 4 = 3.6 of the ordered sizes, 40 + 0.6 x 10 = 46 %.
TEST(ModelErrors, MedianAndNinthTenthOfAbsoluteErrors) {
  const double predicted[] = {110, 80, 130, 60, 150};
  BenchmarkRow measured;
  measured.time_us = 100;
  std::vector<EvaluatedRow> rows;
  for (const double us : predicted) rows.push_back({&measured, "a", us, false});
  rows.push_back({&measured, "b", 100, true});
  const std::vector<ModelErrors> models = SummarizeByModel(rows);
  ASSERT_EQ(models.size(), 3u);
  EXPECT_EQ(models[0].name, "a");
  EXPECT_NEAR(models[0].median_percent, 30, 1e-9);
  EXPECT_NEAR(models[0].p90_percent, 46, 1e-9);
  EXPECT_EQ(models[1].median_percent, 0);
  EXPECT_EQ(models[1].extrapolated_count, 1u);
  EXPECT_EQ(models[2].name, "all");
  EXPECT_NEAR(models[2].median_percent, 25, 1e-9);  // of 0, 10, 20, 30, 40, 50
}

}  // namespace
}  // namespace foretrace
