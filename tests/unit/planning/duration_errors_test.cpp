#include "simulator/planning/validation/duration_errors.h"

#include <cmath>

#include <gtest/gtest.h>

namespace foretrace {
namespace {

DurationPair Pair(const char* operator_class, int64_t recorded_us, int64_t modelled_us,
                  double beside) {
  DurationPair pair;
  pair.operator_class = operator_class;
  pair.recorded = SimTime::FromUs(static_cast<double>(recorded_us));
  pair.modelled = SimTime::FromUs(static_cast<double>(modelled_us));
  pair.beside = beside;
  return pair;
}

TEST(DurationErrors, CallsThatRanAloneAreToldApart) {
  // 10 us modelled as 11 alone; the same call took 22 us beside a collective. 3 % of company, one
  // collective's end, is none.
  const auto rows = ErrorsByClass({Pair("gemm", 10, 11, 0), Pair("gemm", 22, 11, 0.9),
                                   Pair("gemm", 20, 22, 0.03), Pair("softmax", 5, 5, 1)});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].operator_class, "gemm");
  EXPECT_EQ(rows[0].errors.count, 3u);
  // (10 + 50 + 10) / 3, and 44 of 52 us.
  EXPECT_NEAR(rows[0].errors.mape_percent, 70.0 / 3, 1e-9);
  EXPECT_NEAR(rows[0].time_gmae_percent, 100 * std::pow(0.1, 30.0 / 52) * std::pow(0.5, 22.0 / 52),
              1e-9);
  EXPECT_NEAR(rows[0].bias_percent, 100 * (44.0 / 52 - 1), 1e-9);
  EXPECT_EQ(rows[0].alone.count, 2u);
  EXPECT_NEAR(rows[0].alone.mape_percent, 10, 1e-9);
  EXPECT_NEAR(rows[0].alone_bias_percent, 10, 1e-9);
  EXPECT_EQ(rows[1].alone.count, 0u);
  EXPECT_EQ(rows[1].alone_bias_percent, 0);
}

}  // namespace
}  // namespace foretrace
