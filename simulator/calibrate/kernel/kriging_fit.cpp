#include "simulator/calibrate/kernel/kriging_fit.h"

#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/calibrate/kernel/cholesky.h"

namespace foretrace {
namespace {

constexpr int kReweightings = 2;
constexpr double kDegreesOfFreedom = 2;

// The diagonal of the inverse of L L^T: the sums of squares of the columns of L's inverse.
std::vector<double> InverseDiagonal(const LowerTriangle& factor) {
  const size_t n = factor.size();
  std::vector<double> diagonal(n, 0), column(n);
  for (size_t c = 0; c < n; ++c) {
    for (size_t i = c; i < n; ++i) {
      double sum = i == c ? 1 : 0;
      for (size_t l = c; l < i; ++l) sum -= factor[i][l] * column[l];
      column[i] = sum / factor[i][i];
      diagonal[c] += column[i] * column[i];
    }
  }
  return diagonal;
}

using Matrices = std::map<std::pair<int64_t, int64_t>, double>;  // residuals by (n, k)

struct FittedSlice {
  KrigingSlice slice;
  std::map<std::pair<int64_t, int64_t>, double> left_out;
};

absl::StatusOr<FittedSlice> FitSlice(const ShapeDevice& device, int64_t m,
                                     const Matrices& matrices) {
  FittedSlice fitted{{m, {}}, {}};
  KrigingSlice& slice = fitted.slice;
  std::vector<ShapeCoordinates> at;
  std::vector<double> residuals;
  for (const auto& [matrix, residual] : matrices) {
    slice.points.push_back({matrix.first, matrix.second, 0});
    at.push_back(CoordinatesOf(device, m, matrix.first, matrix.second));
    residuals.push_back(residual);
  }
  const ShapeCovariance prior(m);
  LowerTriangle covariance(at.size());
  for (size_t i = 0; i < at.size(); ++i) {
    for (size_t j = 0; j <= i; ++j) covariance[i].push_back(prior(at[i], at[j]));
  }
  const double variance = prior.noise() * prior.noise();
  std::vector<double> noise(at.size(), variance), weights, inverse;
  for (int round = 0; round <= kReweightings; ++round) {
    LowerTriangle noisy = covariance;
    for (size_t i = 0; i < at.size(); ++i) noisy[i][i] += noise[i];
    if (!FactorCholesky(noisy)) {
      return InvalidInput("the covariance of the {} shapes with m = {} cannot be factored",
                          at.size(), m);
    }
    weights = residuals;
    SolveCholesky(noisy, weights);
    if (round == kReweightings) inverse = InverseDiagonal(noisy);
    // What is left at a point is its noise times its weight.
    for (size_t i = 0; i < at.size(); ++i) {
      const double left = noise[i] * weights[i];
      noise[i] = (kDegreesOfFreedom * variance + left * left) / (kDegreesOfFreedom + 1);
    }
  }
  for (size_t i = 0; i < at.size(); ++i) {
    KrigingPoint& point = slice.points[i];
    point.weight = static_cast<float>(weights[i]);
    // Rasmussen and Williams, equation 5.12.
    fitted.left_out[{point.n, point.k}] = residuals[i] - weights[i] / inverse[i];
  }
  return fitted;
}

}  // namespace

absl::StatusOr<FittedKriging> FitShapeKriging(const ShapeDevice& device,
                                              std::span<const MeasuredShape> shapes,
                                              const ProgressSink& progress) {
  std::map<int64_t, Matrices> by_rows;
  for (const MeasuredShape& shape : shapes) {
    if (shape.batch == 1) {
      by_rows[shape.m][{shape.n, shape.k}] = static_cast<double>(shape.log_residual);
    }
  }
  std::vector<KrigingSlice> slices;
  std::map<int64_t, std::map<std::pair<int64_t, int64_t>, double>> left_out;
  size_t done = 0;
  for (const auto& [m, matrices] : by_rows) {
    Tell(progress, "interpolated numbers of rows", done++, by_rows.size());
    if (matrices.size() < ShapeKriging::kMinPoints || matrices.size() > ShapeKriging::kMostPoints) {
      continue;
    }
    FORETRACE_ASSIGN_OR_RETURN(FittedSlice fitted, FitSlice(device, m, matrices));
    slices.push_back(std::move(fitted.slice));
    left_out[m] = std::move(fitted.left_out);
  }
  FittedKriging fitted;
  FORETRACE_ASSIGN_OR_RETURN(fitted.kriging, ShapeKriging::Create(device, std::move(slices)));
  for (const MeasuredShape& shape : shapes) {
    const auto slice = left_out.find(shape.m);
    fitted.left_out.push_back(slice == left_out.end() || shape.batch != 1
                                  ? fitted.kriging.LogResidual(shape.m, shape.n, shape.k)
                                  : slice->second.at({shape.n, shape.k}));
  }
  return fitted;
}

}  // namespace foretrace
