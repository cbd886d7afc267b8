#include "simulator/serve/measured_grid.h"

#include <algorithm>

#include "simulator/base/error.h"

namespace foretrace::serve {
namespace {

constexpr size_t kMostCells = size_t{1} << 22;

}  // namespace

size_t MeasuredGrid::IndexOf(const std::array<size_t, kAxes>& at) const {
  size_t index = 0;
  for (size_t a = 0; a < kAxes; ++a) index = index * axes_[a].size() + at[a];
  return index;
}

std::array<size_t, MeasuredGrid::kAxes> MeasuredGrid::PlaceOf(size_t index) const {
  std::array<size_t, kAxes> at = {};
  for (size_t a = kAxes; a-- > 0; index /= axes_[a].size()) at[a] = index % axes_[a].size();
  return at;
}

absl::Status MeasuredGrid::Finish(size_t first_beyond) {
  if (points_.empty()) return InvalidInput("has no points");
  size_t cells = 1;
  for (size_t a = 0; a < kAxes; ++a) {
    for (const auto& [at, us] : points_) axes_[a].push_back(at[a]);
    std::sort(axes_[a].begin(), axes_[a].end());
    axes_[a].erase(std::unique(axes_[a].begin(), axes_[a].end()), axes_[a].end());
    cells *= axes_[a].size();
    if (cells > kMostCells) return InvalidInput("is no grid: its axes have too many values");
  }
  us_.assign(cells, -1);
  for (const auto& [at, us] : points_) {
    std::array<size_t, kAxes> place = {};
    for (size_t a = 0; a < kAxes; ++a) {
      place[a] = static_cast<size_t>(std::lower_bound(axes_[a].begin(), axes_[a].end(), at[a]) -
                                     axes_[a].begin());
    }
    us_[IndexOf(place)] = us;
  }
  // What one pass leaves, because a whole line is missing, the next fills from the filled.
  for (int pass = 0; pass < 2; ++pass) {
    Fill(true, kAxes - 1);
    Fill(false, first_beyond);
  }
  for (const double us : us_) {
    if (us < 0) return InvalidInput("has too few points to fill its grid");
  }
  points_.clear();
  points_[{}] = us_[0];
  return absl::OkStatus();
}

// A missing point along one axis from known ones: between the two around it, or from the two
// nearest on one side; negative: there are none.
double MeasuredGrid::Along(std::array<size_t, kAxes> at, size_t axis, bool between) const {
  const std::vector<double>& x = axes_[axis];
  const size_t hole = at[axis];
  std::array<size_t, 2> below = {}, above = {};
  size_t n_below = 0, n_above = 0;
  for (size_t i = hole; i-- > 0 && n_below < 2;) {
    at[axis] = i;
    if (known_[IndexOf(at)]) below[n_below++] = i;
  }
  for (size_t i = hole + 1; i < x.size() && n_above < 2; ++i) {
    at[axis] = i;
    if (known_[IndexOf(at)]) above[n_above++] = i;
  }
  const auto line = [&](size_t near, size_t far) {
    at[axis] = near;
    const double y = us_[IndexOf(at)];
    at[axis] = far;
    const double slope = (us_[IndexOf(at)] - y) / (x[far] - x[near]);
    return std::pair(y, y + slope * (x[hole] - x[near]));
  };
  if (between) return n_below > 0 && n_above > 0 ? line(below[0], above[0]).second : -1;
  // Times do not fall with size.
  if (n_below == 2) {
    const auto [near, us] = line(below[0], below[1]);
    return std::max(near, us);
  }
  if (n_above == 2) {
    const auto [near, us] = line(above[0], above[1]);
    return std::clamp(us, 0.0, near);
  }
  return -1;
}

void MeasuredGrid::Fill(bool between, size_t first_axis) {
  known_.resize(us_.size());
  for (size_t i = 0; i < us_.size(); ++i) known_[i] = us_[i] >= 0;
  for (size_t index = 0; index < us_.size(); ++index) {
    if (known_[index]) continue;
    const auto at = PlaceOf(index);
    double us = Along(at, first_axis, between);
    for (size_t a = kAxes; a-- > 0 && us < 0;) us = Along(at, a, between);
    us_[index] = us;
  }
}

Interpolated MeasuredGrid::At(Point x) const {
  std::array<Bracket, kAxes> brackets;
  Interpolated result;
  for (size_t a = 0; a < kAxes; ++a) {
    x[a] = std::max(x[a], axes_[a].front());
    if (x[a] > axes_[a].back()) result.extrapolated = true;
    brackets[a] = BracketOf(axes_[a], x[a]);
  }
  for (unsigned corner = 0; corner < 1U << kAxes; ++corner) {
    double weight = 1;
    std::array<size_t, kAxes> at = {};
    for (size_t a = 0; a < kAxes; ++a) {
      const bool high = (corner >> a & 1) != 0;
      weight *= high ? brackets[a].weight : 1 - brackets[a].weight;
      at[a] = brackets[a].low + (high ? 1 : 0);
    }
    if (weight != 0) result.us += weight * us_[IndexOf(at)];
  }
  result.us = std::max(0.0, result.us);
  return result;
}

}  // namespace foretrace::serve
