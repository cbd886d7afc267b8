#pragma once
// Measured times between their grid points.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace foretrace::serve {

struct Interpolated {
  double us = 0;
  bool extrapolated = false;  // beyond the measured range, along the last or first two points
};

// A time over one size, linear between measured points; below the first as there, beyond the last
// along the last two.
class Curve {
 public:
  // Points in any order; of repeats the mean.
  void Add(double x, double us);
  // After the last Add; errors say what is wrong, not where: no points.
  absl::Status Finish();
  bool empty() const { return points_.empty(); }
  Interpolated At(double x) const;
  bool operator==(const Curve&) const = default;

 private:
  struct Point {
    double x, us;
    int32_t repeats = 1;
    bool operator==(const Point&) const = default;
  };
  std::vector<Point> points_;
};

// A bracket of `x` within ascending `axis`: axis[low] and axis[low + 1], and the weight of the
// latter, outside [0, 1] beyond the axis.
struct Bracket {
  size_t low = 0;
  double weight = 0;
};
Bracket BracketOf(std::span<const double> axis, double x);

}  // namespace foretrace::serve
