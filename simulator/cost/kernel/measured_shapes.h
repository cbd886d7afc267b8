#pragma once
// GEMMs of one weight matrix, measured over many numbers of rows: what remains between
// model and measurement, interpolated. Libraries choose among kernels by rules of their own, so
// that a GEMM's time jumps with its rows where no model sees a reason; measurements do.

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"

namespace foretrace {

struct MeasuredShape {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  float log_residual = 0;  // log of measured over modelled
};

class MeasuredShapes {
 public:
  MeasuredShapes() = default;
  // Keeps matrices (n, k, batch) with at least `kMinRows` different m; repeats of a shape count by
  // their median. The order of `shapes` does not matter.
  static MeasuredShapes Select(std::vector<MeasuredShape> shapes);
  // From a file: strictly ascending in (n, k, batch, m). Errors: another order, sizes that are not
  // positive, values that are not finite or above 3.
  static absl::StatusOr<MeasuredShapes> Create(std::vector<MeasuredShape> shapes);
  static constexpr size_t kMinRows = 8;

  bool empty() const { return shapes_.empty(); }
  std::span<const MeasuredShape> shapes() const { return shapes_; }
  // Linear in m between measured rows, the nearest beyond them; 0 for matrices not measured.
  double LogResidual(int64_t m, int64_t n, int64_t k, int64_t batch) const;
  // The same where n and batch lie between measured matrices of the same k: linear in their
  // logarithms between the nearest, the nearest beyond them; 0 where none has that k.
  double LogResidualBetween(int64_t m, int64_t n, int64_t k, int64_t batch) const;

 private:
  struct Matrix {
    int64_t n, k, batch;
    size_t begin, end;  // in shapes_
  };
  explicit MeasuredShapes(std::vector<MeasuredShape> shapes);
  double InMatrix(const Matrix& matrix, int64_t m) const;
  // Between the nearest n of that k and batch, of which there is one.
  double BetweenColumns(int64_t m, int64_t n, int64_t k, int64_t batch) const;

  std::vector<MeasuredShape> shapes_;
  std::vector<Matrix> matrices_;
};

}  // namespace foretrace
