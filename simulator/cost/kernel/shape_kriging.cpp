#include "simulator/cost/kernel/shape_kriging.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/cost/kernel/product_tiles.h"

namespace foretrace {
namespace {

// Large ones first.
constexpr std::span kTiles = std::span(kProductTiles).first<11>();
constexpr double kEmptiest = 0.25;  // of a wave: below it tiles no longer decide
constexpr int64_t kWidestAlignment = 4096;
constexpr double kLeastCached = 0.05, kMostCached = 5;  // operands over L2: outside, all or nothing
constexpr double kOperandBytes = 2;

// Coordinates: log n, log k, the tiles, alignments of n and k, fills of L2 by weights and by rows.
constexpr size_t kFirstTile = 2, kFirstSmall = kFirstTile + 5, kTilesEnd = kFirstTile + 11;
constexpr size_t kFirstLarge = kFirstTile, kLargeEnd = kFirstTile + 6;
constexpr size_t kAlignment = kTilesEnd, kCached = kAlignment + 2;
static_assert(kCached + 2 == kShapeCoordinates);

// One part of the covariance: a Matern function of smoothness 3/2 of the distance in log n, log k
// and one group of coordinates, each over its length. Chosen so that shapes left out one at a time
// are predicted best in two tables of 322 weight matrices (bf16 on H100 and A100,
// docs/accuracy.md).
struct Part {
  double deviation, n_length, k_length;
  size_t begin, end;
  double length;
};
constexpr std::array<Part, 6> kParts = {{{0.324, 3.562, 2.624, 0, 0, 1},
                                         {0.016, 3.035, 3.2, 0, 0, 1},
                                         {0.08, 1.46, 1.181, kFirstLarge, kLargeEnd, 0.14},
                                         {0.062, 1, 1, kFirstSmall, kTilesEnd, 0.235},
                                         {0.035, 0.265, 2.061, kAlignment, kAlignment + 2, 9.062},
                                         {0.062, 1.432, 1, kCached, kCached + 2, 0.5}}};
constexpr double kMeanVariance = 1;  // of what all shapes have in common

float LogWaveLoss(const ShapeDevice& device, double m, double n, const ProductTile& tile) {
  const double waves = std::ceil(m / tile.rows) * std::ceil(n / tile.cols) / device.multiprocessors;
  return static_cast<float>(std::log(std::ceil(waves) / std::max(waves, kEmptiest)));
}

float Alignment(int64_t size) {
  return static_cast<float>(
      std::countr_zero(static_cast<uint64_t>(size) | static_cast<uint64_t>(kWidestAlignment)));
}

float LogCached(const ShapeDevice& device, double elements) {
  const double share = elements * kOperandBytes / (device.l2_mbytes * 1e6);
  return static_cast<float>(std::log(std::clamp(share, kLeastCached, kMostCached)));
}

}  // namespace

ShapeCoordinates CoordinatesOf(const ShapeDevice& device, int64_t m, int64_t n, int64_t k) {
  const auto rows = static_cast<double>(m), cols = static_cast<double>(n),
             depth = static_cast<double>(k);
  ShapeCoordinates x = {static_cast<float>(std::log(cols)), static_cast<float>(std::log(depth))};
  for (size_t t = 0; t < kTiles.size(); ++t) {
    x[kFirstTile + t] = LogWaveLoss(device, rows, cols, kTiles[t]);
  }
  x[kAlignment] = Alignment(n);
  x[kAlignment + 1] = Alignment(k);
  x[kCached] = LogCached(device, cols * depth);
  x[kCached + 1] = LogCached(device, rows * depth);
  return x;
}

double ShapeCovariance(const ShapeCoordinates& a, const ShapeCoordinates& b) {
  std::array<double, kShapeCoordinates> squares;
  for (size_t i = 0; i < kShapeCoordinates; ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    squares[i] = d * d;
  }
  double sum = kMeanVariance;
  for (const Part& part : kParts) {
    double group = 0;
    for (size_t i = part.begin; i < part.end; ++i) group += squares[i];
    const double d2 = squares[0] / (part.n_length * part.n_length) +
                      squares[1] / (part.k_length * part.k_length) +
                      group / (part.length * part.length);
    const double d = std::sqrt(3 * d2);
    sum += part.deviation * part.deviation * (1 + d) * std::exp(-d);
  }
  return sum;
}

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
  double sum = 0;
  for (size_t i = 0; i < at.points.size(); ++i) {
    sum += static_cast<double>(at.points[i].weight) * ShapeCovariance(x, coordinates_[slice][i]);
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
