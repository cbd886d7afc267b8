#include "simulator/cost/kernel/measured_shapes.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "simulator/base/error.h"

namespace foretrace {
namespace {

constexpr float kLargest = 3;
constexpr float kUnits = 1e4f;  // the resolution of the file, so that reading back changes nothing

// The nearest measured values on either side; equal where one is met, or none lies beyond.
struct Nearest {
  int64_t below = 0, above = 0;  // 0: none yet

  void See(int64_t value, int64_t wanted) {
    if (value <= wanted) below = std::max(below, value);
    if (value >= wanted) above = above == 0 ? value : std::min(above, value);
  }
  bool Found() const { return std::max(below, above) > 0; }
  void Close() {
    if (below == 0) below = above;
    if (above == 0) above = below;
  }
  // Of the way from below to above, in logarithms.
  double ShareOf(int64_t wanted) const {
    if (below == above) return 0;
    const auto log = [](int64_t x) { return std::log(static_cast<double>(x)); };
    return (log(wanted) - log(below)) / (log(above) - log(below));
  }
};

auto MatrixOf(const MeasuredShape& s) { return std::tuple(s.n, s.k, s.batch); }
auto OrderOf(const MeasuredShape& s) { return std::tuple(s.n, s.k, s.batch, s.m); }

}  // namespace

MeasuredShapes::MeasuredShapes(std::vector<MeasuredShape> shapes) : shapes_(std::move(shapes)) {
  for (size_t i = 0; i < shapes_.size(); ++i) {
    const MeasuredShape& s = shapes_[i];
    if (i == 0 || MatrixOf(s) != MatrixOf(shapes_[i - 1])) {
      matrices_.push_back({s.n, s.k, s.batch, i, i});
    }
    matrices_.back().end = i + 1;
  }
}

MeasuredShapes MeasuredShapes::Select(std::vector<MeasuredShape> shapes) {
  std::ranges::sort(shapes, [](const MeasuredShape& a, const MeasuredShape& b) {
    return std::tuple(OrderOf(a), a.log_residual) < std::tuple(OrderOf(b), b.log_residual);
  });
  std::vector<MeasuredShape> kept;
  for (size_t begin = 0, matrix = 0; begin < shapes.size();) {
    size_t end = begin;
    while (end < shapes.size() && OrderOf(shapes[end]) == OrderOf(shapes[begin])) ++end;
    MeasuredShape one = shapes[begin];
    const size_t middle = begin + (end - begin) / 2;
    one.log_residual = (end - begin) % 2 == 1
                           ? shapes[middle].log_residual
                           : 0.5f * (shapes[middle - 1].log_residual + shapes[middle].log_residual);
    one.log_residual = std::round(one.log_residual * kUnits) / kUnits;
    kept.push_back(one);
    begin = end;
    if (begin < shapes.size() && MatrixOf(shapes[begin]) == MatrixOf(one)) continue;
    if (kept.size() - matrix < kMinRows) kept.resize(matrix);
    matrix = kept.size();
  }
  return MeasuredShapes(std::move(kept));
}

absl::StatusOr<MeasuredShapes> MeasuredShapes::Create(std::vector<MeasuredShape> shapes) {
  for (size_t i = 0; i < shapes.size(); ++i) {
    const MeasuredShape& s = shapes[i];
    if (std::min({s.m, s.n, s.k, s.batch}) < 1 || !(std::abs(s.log_residual) <= kLargest)) {
      return InvalidInput("measured shape {} of {} is out of range", i + 1, shapes.size());
    }
    if (i > 0 && OrderOf(shapes[i - 1]) >= OrderOf(s)) {
      return InvalidInput("measured shape {} of {} is out of order", i + 1, shapes.size());
    }
  }
  return MeasuredShapes(std::move(shapes));
}

double MeasuredShapes::LogResidual(int64_t m, int64_t n, int64_t k, int64_t batch) const {
  const auto key = std::tuple(n, k, batch);
  const auto matrix = std::ranges::lower_bound(
      matrices_, key, {}, [](const Matrix& x) { return std::tuple(x.n, x.k, x.batch); });
  if (matrix == matrices_.end() || std::tuple(matrix->n, matrix->k, matrix->batch) != key) return 0;
  return InMatrix(*matrix, m);
}

double MeasuredShapes::InMatrix(const Matrix& matrix, int64_t m) const {
  const std::span<const MeasuredShape> rows(shapes_.data() + matrix.begin,
                                            matrix.end - matrix.begin);
  const auto above = std::ranges::lower_bound(rows, m, {}, &MeasuredShape::m);
  if (above == rows.begin()) return rows.front().log_residual;
  if (above == rows.end()) return rows.back().log_residual;
  const MeasuredShape &a = *(above - 1), &b = *above;
  const double share = static_cast<double>(m - a.m) / static_cast<double>(b.m - a.m);
  return a.log_residual + share * (b.log_residual - a.log_residual);
}

double MeasuredShapes::BetweenColumns(int64_t m, int64_t n, int64_t k, int64_t batch) const {
  Nearest nearest;
  for (const Matrix& x : matrices_) {
    if (x.k == k && x.batch == batch) nearest.See(x.n, n);
  }
  nearest.Close();
  const double below = LogResidual(m, nearest.below, k, batch);
  if (nearest.below == nearest.above) return below;
  return below + nearest.ShareOf(n) * (LogResidual(m, nearest.above, k, batch) - below);
}

double MeasuredShapes::LogResidualBetween(int64_t m, int64_t n, int64_t k, int64_t batch) const {
  Nearest nearest;
  for (const Matrix& x : matrices_) {
    if (x.k == k) nearest.See(x.batch, batch);
  }
  if (!nearest.Found() || std::min(n, batch) < 1) return 0;
  nearest.Close();
  const double below = BetweenColumns(m, n, k, nearest.below);
  if (nearest.below == nearest.above) return below;
  return below + nearest.ShareOf(batch) * (BetweenColumns(m, n, k, nearest.above) - below);
}

}  // namespace foretrace
