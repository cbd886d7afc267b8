#pragma once
// Residuals of matrix products, interpolated over weight matrices (n, k) that were measured at the
// same number of rows m: a Gaussian process (kriging; Rasmussen and Williams 2006, chapter 2). Two
// shapes resemble each other where their sizes do, where their tiles fill the last wave of the
// multiprocessors as well, where their operands fit into L2 as well, and where their rows are as
// well aligned: the mechanisms by which libraries choose kernels and by which kernels lose time.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"

namespace foretrace {

// What of a GPU decides how shapes resemble each other: that of the one that was measured, also
// where the residuals stand for another.
struct ShapeDevice {
  double multiprocessors = 0, l2_mbytes = 0;
};

// Where a shape lies for the covariance.
inline constexpr size_t kShapeCoordinates = 17;
using ShapeCoordinates = std::array<float, kShapeCoordinates>;
ShapeCoordinates CoordinatesOf(const ShapeDevice& device, int64_t m, int64_t n, int64_t k);
// Prior covariance of the log residuals of two shapes; the noise of a measurement not included.
double ShapeCovariance(const ShapeCoordinates& a, const ShapeCoordinates& b);
// Standard deviation of a measurement about what its shape explains: repeats of one version of a
// library differ by 1 % in the median, and its choice among kernels is not smooth.
inline constexpr double kShapeNoise = 0.056;

// Weight matrices measured with m rows, each with its weight: the covariance matrix with noise,
// inverted, times the residuals.
struct KrigingPoint {
  int64_t n = 0, k = 0;
  float weight = 0;
};
struct KrigingSlice {
  int64_t m = 0;
  std::vector<KrigingPoint> points;
};

class ShapeKriging {
 public:
  // A slice of fewer matrices says too little of what lies between them.
  static constexpr size_t kMinPoints = 64;
  static constexpr size_t kMostPoints = 4096;

  ShapeKriging() = default;
  // `slices` ascend in m. Errors: another order, sizes that are not positive, weights that are not
  // finite, too many points, a device without multiprocessors or L2.
  static absl::StatusOr<ShapeKriging> Create(const ShapeDevice& device,
                                             std::vector<KrigingSlice> slices);

  bool empty() const { return slices_.empty(); }
  const ShapeDevice& device() const { return device_; }
  std::span<const KrigingSlice> slices() const { return slices_; }
  // Log of measured over modelled time: linear in log m between slices, the nearest beyond them.
  // Far from all matrices measured it is the same for all.
  double LogResidual(int64_t m, int64_t n, int64_t k) const;

 private:
  double InSlice(size_t slice, int64_t n, int64_t k) const;

  ShapeDevice device_;
  std::vector<KrigingSlice> slices_;
  std::vector<std::vector<ShapeCoordinates>> coordinates_;  // of the points of each slice
};

}  // namespace foretrace
