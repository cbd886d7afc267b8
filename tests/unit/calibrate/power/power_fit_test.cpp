#include "simulator/calibrate/power/power_fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "simulator/base/statistics.h"

namespace foretrace {
namespace {

// A device of 120 W idle and 12 W busy, 0.7 pJ a FLOP, 90 and 60 pJ a byte, that is held at 600 W;
// of every third series kernels lie 40 us apart.
std::vector<PowerRow> Rows() {
  std::vector<PowerRow> rows;
  const PowerRates rates = {12, 0.7, 90, 60};
  for (int group = 0; group < 40; ++group) {
    for (int series = 0; series < 12; ++series) {
      PowerRow row;
      row.group = group;
      row.series = series;
      row.time = SimTime::FromUs(5.0 + (group * 7 % 23) * (1 + series));
      row.activity = {FlopRate::Teraflops(group * 13 % 600),
                      Bandwidth::GBps(10 * ((group * 31 + series * 17) % 300)),
                      Bandwidth::GBps(10 * ((group * 5 + series * 41) % 200))};
      const double running = std::min(600.0, 120 + rates.Watts(row.activity));
      const double share = series % 3 == 0 ? row.time.us() / (row.time.us() + 40) : 1.0;
      row.watts = 120 + (running - 120) * share;
      rows.push_back(row);
    }
  }
  return rows;
}

TEST(PowerFit, FindsRatesAndTheSeriesWithGaps) {
  const auto rows = Rows();
  const auto fit = FitPower(rows, 600);
  ASSERT_TRUE(fit.ok()) << fit.status();
  EXPECT_NEAR(fit->model.idle_w, 120, 10);
  EXPECT_NEAR(fit->model.idle_w + fit->model.wide.busy_w, 132, 3);
  EXPECT_NEAR(fit->model.wide.pj_per_flop, 0.7, 0.05);
  EXPECT_NEAR(fit->model.wide.pj_per_memory_byte, 90, 8);
  EXPECT_NEAR(fit->model.wide.pj_per_cache_byte, 60, 8);
  EXPECT_NEAR(fit->gap_wide.us(), 40, 5);
  EXPECT_EQ(fit->gaps_wide, (std::set<int64_t>{0, 3, 6, 9}));
  const auto errors = HoldOutPower(rows, 600);
  ASSERT_TRUE(errors.ok()) << errors.status();
  EXPECT_EQ(errors->continuous.size() + errors->with_gaps.size(), rows.size());
  for (std::vector<double> some : {errors->continuous, errors->with_gaps}) {
    for (double& e : some) e = std::abs(e);
    EXPECT_LT(Quantile(some, 0.9), 0.05);
  }
}

// A row in eight is wrong by a factor of three, and the others are found all the same.
TEST(PowerFit, OutliersDoNotSteer) {
  auto rows = Rows();
  for (size_t i = 0; i < rows.size(); i += 8) rows[i].watts *= 3;
  const auto fit = FitPower(rows, 600);
  ASSERT_TRUE(fit.ok()) << fit.status();
  EXPECT_NEAR(fit->model.wide.pj_per_flop, 0.7, 0.1);
  EXPECT_NEAR(fit->model.wide.pj_per_memory_byte, 90, 15);
}

TEST(PowerFit, TooLittleIsRefused) {
  auto rows = Rows();
  rows.resize(5);
  EXPECT_FALSE(FitPower(rows, 600).ok());
  EXPECT_FALSE(HoldOutPower(rows, 600).ok());
  rows = Rows();
  rows[3].watts = 0;
  EXPECT_FALSE(FitPower(rows, 600).ok());
}

}  // namespace
}  // namespace foretrace
