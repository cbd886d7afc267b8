#pragma once
// A measured time over up to four sizes.

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "simulator/serve/interpolation.h"

namespace foretrace::serve {

class MeasuredGrid {
 public:
  static constexpr size_t kAxes = 4;
  using Point = std::array<double, kAxes>;  // axes that are not used are 0 in all

  void Add(const Point& at, double us) { points_[at] = us; }
  bool empty() const { return points_.empty(); }
  // After the last Add. Points that are missing between measured ones are interpolated, along the
  // last axis that can; what lies beyond is extrapolated along `first_beyond` where that can, else
  // along the last axis that can. Errors say what is wrong, not where.
  absl::Status Finish(size_t first_beyond);
  // Linear in every axis; below an axis' first value as there, beyond its last along the last two,
  // and flagged.
  Interpolated At(Point x) const;

 private:
  size_t IndexOf(const std::array<size_t, kAxes>& at) const;
  std::array<size_t, kAxes> PlaceOf(size_t index) const;
  double Along(std::array<size_t, kAxes> at, size_t axis, bool between) const;
  void Fill(bool between, size_t first_axis);

  std::map<Point, double> points_;
  std::array<std::vector<double>, kAxes> axes_;
  std::vector<double> us_;   // by IndexOf; negative: none
  std::vector<bool> known_;  // by IndexOf: what holes are filled from
};

}  // namespace foretrace::serve
