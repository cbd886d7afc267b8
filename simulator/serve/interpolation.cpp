#include "simulator/serve/interpolation.h"

#include <algorithm>

#include "simulator/base/error.h"

namespace foretrace::serve {

void Curve::Add(double x, double us) { points_.push_back({x, us}); }

absl::Status Curve::Finish() {
  if (points_.empty()) return InvalidInput("has no points");
  std::stable_sort(points_.begin(), points_.end(),
                   [](const Point& a, const Point& b) { return a.x < b.x; });
  size_t kept = 0;
  for (size_t i = 1; i < points_.size(); ++i) {
    Point& last = points_[kept];
    if (points_[i].x == last.x) {
      last.us += (points_[i].us - last.us) / ++last.repeats;
    } else {
      points_[++kept] = points_[i];
    }
  }
  points_.resize(kept + 1);
  return absl::OkStatus();
}

Interpolated Curve::At(double x) const {
  if (points_.size() == 1) return {points_[0].us, x != points_[0].x};
  auto upper = std::lower_bound(points_.begin(), points_.end(), x,
                                [](const Point& p, double at) { return p.x < at; });
  const bool outside = upper == points_.end() || (upper == points_.begin() && upper->x != x);
  if (upper == points_.end()) --upper;
  if (upper == points_.begin()) ++upper;
  const Point &a = *(upper - 1), &b = *upper;
  const double us = a.us + (b.us - a.us) * (x - a.x) / (b.x - a.x);
  // Below the first point times do not fall: a kernel has a shortest run.
  if (x < points_.front().x) return {points_.front().us, outside};
  return {us, outside};
}

Bracket BracketOf(std::span<const double> axis, double x) {
  if (axis.size() < 2) return {};
  const auto upper = std::upper_bound(axis.begin(), axis.end(), x);
  const auto last = static_cast<std::ptrdiff_t>(axis.size()) - 2;
  const auto low =
      static_cast<size_t>(std::clamp<std::ptrdiff_t>(upper - axis.begin() - 1, 0, last));
  return {low, (x - axis[low]) / (axis[low + 1] - axis[low])};
}

}  // namespace foretrace::serve
