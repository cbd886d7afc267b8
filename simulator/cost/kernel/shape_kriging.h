#pragma once
// Residuals of GEMMs, interpolated over weight matrices (n, k) that were measured at the
// same number of rows m: a Gaussian process (kriging; Rasmussen and Williams 2006, chapter 2)
// over the covariance of shape_covariance.h.

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/cost/kernel/shape_covariance.h"

namespace foretrace {

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
