#include "simulator/cost/kernel/shape_kriging.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "simulator/base/error.h"

namespace foretrace {
absl::StatusOr<ShapeKriging> ShapeKriging::Create(const ShapeDevice& device,
                                                  std::vector<KrigingSlice> slices) {
  if (!(device.multiprocessors > 0 && device.l2_mbytes > 0)) {
    return InvalidInput("shapes were measured on {} multiprocessors with {} MB of L2",
                        device.multiprocessors, device.l2_mbytes);
  }
  ShapeKriging kriging;
  kriging.device_ = device;
  int64_t m = 0;
  for (const KrigingSlice& slice : slices) {
    if (slice.m <= m) return InvalidInput("slices of shapes are out of order at m = {}", slice.m);
    if (slice.points.empty() || slice.points.size() > kMostPoints) {
      return InvalidInput("the slice of m = {} has {} shapes, not 1 to {}", slice.m,
                          slice.points.size(), kMostPoints);
    }
    m = slice.m;
    std::vector<ShapeCoordinates>& coordinates = kriging.coordinates_.emplace_back();
    coordinates.reserve(slice.points.size());
    for (const KrigingPoint& point : slice.points) {
      if (std::min(point.n, point.k) < 1 || !std::isfinite(point.weight)) {
        return InvalidInput("the slice of m = {} has a shape that is out of range", slice.m);
      }
      coordinates.push_back(CoordinatesOf(device, slice.m, point.n, point.k));
    }
  }
  kriging.slices_ = std::move(slices);
  return kriging;
}

double ShapeKriging::InSlice(size_t slice, int64_t n, int64_t k) const {
  const KrigingSlice& at = slices_[slice];
  const ShapeCoordinates x = CoordinatesOf(device_, at.m, n, k);
  const ShapeCovariance covariance(at.m);
  double sum = 0;
  for (size_t i = 0; i < at.points.size(); ++i) {
    sum += static_cast<double>(at.points[i].weight) * covariance(x, coordinates_[slice][i]);
  }
  return sum;
}

double ShapeKriging::LogResidual(int64_t m, int64_t n, int64_t k) const {
  if (slices_.empty() || std::min({m, n, k}) < 1) return 0;
  const auto above = std::ranges::lower_bound(slices_, m, {}, &KrigingSlice::m);
  const auto high = static_cast<size_t>(above - slices_.begin());
  if (above == slices_.end()) return InSlice(high - 1, n, k);
  const double at = InSlice(high, n, k);
  if (above->m == m || high == 0) return at;
  const double below = InSlice(high - 1, n, k);
  const double low_m = static_cast<double>(slices_[high - 1].m);
  const double share =
      std::log(static_cast<double>(m) / low_m) / std::log(static_cast<double>(above->m) / low_m);
  return below + share * (at - below);
}

}  // namespace foretrace
