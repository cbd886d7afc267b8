#include "simulator/calibrate/kernel/kriging_fit.h"

#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"

namespace foretrace {
namespace {

constexpr int kReweightings = 2;
constexpr double kDegreesOfFreedom = 2;

using Matrix = std::vector<std::vector<double>>;  // lower triangle, by row

// Solves A x = b of a symmetric positive definite A by Cholesky's factorisation, in place.
bool SolvePositive(Matrix& a, std::vector<double>& b) {
  const size_t n = b.size();
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      double sum = a[i][j];
      for (size_t l = 0; l < j; ++l) sum -= a[i][l] * a[j][l];
      if (i != j) {
        a[i][j] = sum / a[j][j];
        continue;
      }
      if (!(sum > 0)) return false;
      a[i][i] = std::sqrt(sum);
    }
    for (size_t l = 0; l < i; ++l) b[i] -= a[i][l] * b[l];
    b[i] /= a[i][i];
  }
  for (size_t i = n; i-- > 0;) {
    b[i] /= a[i][i];
    for (size_t l = 0; l < i; ++l) b[l] -= a[i][l] * b[i];
  }
  return true;
}

using Matrices = std::map<std::pair<int64_t, int64_t>, double>;  // residuals by (n, k)

absl::StatusOr<KrigingSlice> FitSlice(const ShapeDevice& device, int64_t m,
                                      const Matrices& matrices) {
  KrigingSlice slice{m, {}};
  std::vector<ShapeCoordinates> at;
  std::vector<double> residuals;
  for (const auto& [matrix, residual] : matrices) {
    slice.points.push_back({matrix.first, matrix.second, 0});
    at.push_back(CoordinatesOf(device, m, matrix.first, matrix.second));
    residuals.push_back(residual);
  }
  Matrix covariance(at.size());
  for (size_t i = 0; i < at.size(); ++i) {
    for (size_t j = 0; j <= i; ++j) covariance[i].push_back(ShapeCovariance(at[i], at[j]));
  }
  constexpr double kVariance = kShapeNoise * kShapeNoise;
  std::vector<double> noise(at.size(), kVariance), weights;
  for (int round = 0; round <= kReweightings; ++round) {
    Matrix noisy = covariance;
    for (size_t i = 0; i < at.size(); ++i) noisy[i][i] += noise[i];
    weights = residuals;
    if (!SolvePositive(noisy, weights)) {
      return InvalidInput("the covariance of the {} shapes with m = {} cannot be factored",
                          at.size(), m);
    }
    // What is left at a point is its noise times its weight.
    for (size_t i = 0; i < at.size(); ++i) {
      const double left = noise[i] * weights[i];
      noise[i] = (kDegreesOfFreedom * kVariance + left * left) / (kDegreesOfFreedom + 1);
    }
  }
  for (size_t i = 0; i < at.size(); ++i) slice.points[i].weight = static_cast<float>(weights[i]);
  return slice;
}

}  // namespace

absl::StatusOr<ShapeKriging> FitShapeKriging(const ShapeDevice& device,
                                             std::span<const MeasuredShape> shapes) {
  std::map<int64_t, Matrices> by_rows;
  for (const MeasuredShape& shape : shapes) {
    if (shape.batch == 1) {
      by_rows[shape.m][{shape.n, shape.k}] = static_cast<double>(shape.log_residual);
    }
  }
  std::vector<KrigingSlice> slices;
  for (const auto& [m, matrices] : by_rows) {
    if (matrices.size() < ShapeKriging::kMinPoints || matrices.size() > ShapeKriging::kMostPoints) {
      continue;
    }
    FORETRACE_ASSIGN_OR_RETURN(KrigingSlice slice, FitSlice(device, m, matrices));
    slices.push_back(std::move(slice));
  }
  return ShapeKriging::Create(device, std::move(slices));
}

}  // namespace foretrace
