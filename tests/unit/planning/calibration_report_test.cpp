// What `calibrate` says where there is nothing to judge.
#include "simulator/planning/calibration/calibration_report.h"

#include <gtest/gtest.h>

namespace foretrace {
namespace {

// Of few shapes a rule may hold none out: that is no error of 0 %.
TEST(CalibrationReport, NoRowsHeldOut) {
  CalibrateReport report;
  report.models.emplace_back().name = "all";
  report.notes = {"p: a note"};
  EXPECT_EQ(
      CalibrationText(report, {}),
      "Verdict: no rows were held out: nothing says how far the fit is off\nNote: p: a note\n");
}

}  // namespace
}  // namespace foretrace
