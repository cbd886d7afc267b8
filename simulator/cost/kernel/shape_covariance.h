#pragma once
// How much what a model leaves of two GEMMs of the same number of rows m resembles each
// other: where their sizes do, where the blocks of some tile fill the last wave of multiprocessors
// as well, where a reduction that is divided among multiprocessors is as deep, where their operands
// fit into L2 as well; and two of one n or one k, for which libraries choose alike. These are the
// mechanisms by which libraries choose kernels and by which kernels lose time.

#include <array>
#include <cstddef>
#include <cstdint>

namespace foretrace {

// Weights of interpolated shapes hold for the covariance that they were solved with; of every
// change of coordinates, lengths or deviations.
inline constexpr uint32_t kShapeCovarianceVersion = 2;

// What of a GPU decides how shapes resemble each other: that of the one that was measured, also
// where the residuals stand for another.
struct ShapeDevice {
  double multiprocessors = 0, l2_mbytes = 0;
};

// Where a shape lies for the covariance.
inline constexpr size_t kShapeCoordinates = 23;
using ShapeCoordinates = std::array<float, kShapeCoordinates>;
ShapeCoordinates CoordinatesOf(const ShapeDevice& device, int64_t m, int64_t n, int64_t k);

// Of GEMMs of one number of rows: that decides which kernels libraries choose from.
class ShapeCovariance {
 public:
  explicit ShapeCovariance(int64_t m);
  // Prior covariance of the log residuals of two shapes; the noise of a measurement not included.
  double operator()(const ShapeCoordinates& a, const ShapeCoordinates& b) const;
  // Standard deviation of a measurement about what its shape explains: repeats of one version of a
  // library differ by 1 % in the median, and its choice among kernels is not smooth.
  double noise() const;

  struct Regime;

 private:
  const Regime& regime_;
};

}  // namespace foretrace
