#pragma once
// Fits power to measured means of kernels that ran over and over.

#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/cost/power/power_model.h"

namespace foretrace {

struct PowerRow {
  bool narrow = false;  // operands of 8 bits
  int64_t group = 0;    // rows that are held out together
  int64_t series = 0;   // rows that were measured in one way: those of one number of rows
  Activity activity;    // while the kernel runs
  SimTime time;         // of the kernel
  double watts = 0;
};

// Kernels that are launched one by one leave the device idle in between: of some series of a table
// kernels followed each other, of others with a gap, and a series' own rows tell which.
struct PowerFit {
  PowerModel model;
  SimTime gap_wide, gap_narrow;
  std::set<int64_t> gaps_wide, gaps_narrow;  // series with gaps

  double Predict(const PowerRow& row) const;
  bool HasGaps(const PowerRow& row) const;
};

// By the sum of absolute logarithms, each counted up to a bound, over the bounds of all parameters:
// outliers do not steer it. `limit_w`: of the board. Errors: fewer rows than parameters of either
// width, powers that are not positive.
absl::StatusOr<PowerFit> FitPower(std::span<const PowerRow> rows, double limit_w);

struct PowerErrors {
  std::vector<double> continuous, with_gaps;  // signed, fractions of the measured power
  std::vector<double> wide, narrow;           // the same rows by the width of their operands

  void Add(const PowerFit& fit, const PowerRow& row);
};
// Every group predicted by a fit to the four fifths of groups that it is not in.
absl::StatusOr<PowerErrors> HoldOutPower(std::span<const PowerRow> rows, double limit_w);

}  // namespace foretrace
