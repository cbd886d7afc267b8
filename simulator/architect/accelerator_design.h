#pragma once
// One point of the space of accelerators: cores of two kinds, their buffers and the area of them
// (Wang et al., "Integrated hardware architecture and device placement search", ICML 2024,
// section 3.1 and appendix C.1).

#include <compare>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace foretrace {

class Area {
 public:
  constexpr Area() = default;
  static constexpr Area SquareMicrometres(double v) { return Area(v); }
  static constexpr Area SquareMillimetres(double v) { return Area(v * 1e6); }
  constexpr double um2() const { return um2_; }
  constexpr double mm2() const { return um2_ * 1e-6; }
  constexpr auto operator<=>(const Area&) const = default;

 private:
  explicit constexpr Area(double v) : um2_(v) {}
  double um2_ = 0;
};

// `width` is of tensor and vector cores alike: operators of one model have like dimensions.
struct AcceleratorDesign {
  int32_t tensor_cores = 1;
  int32_t vector_cores = 1;
  int32_t width = 2;
  int32_t depth = 2;      // of tensor cores
  int32_t buffer_MB = 2;  // global buffer

  bool operator==(const AcceleratorDesign&) const = default;
  int64_t macs() const { return int64_t{tensor_cores} * width * depth; }
  // L2 buffer of one core: 2^(log2 width + log2 depth - 6) KB, at least 1 KB.
  int64_t tensor_l2_bytes() const;
  int64_t vector_l2_bytes() const;
};

// {tensor, vector, width, depth, width}/buffer MB, as the paper writes it.
std::string Describe(const AcceleratorDesign& design);

// Area at 22 nm from the areas that Accelergy gives of buffers, multiply-accumulate units and
// vector lanes. Errors: a size that it gives none of; the message says which there are.
absl::StatusOr<Area> AreaOf(const AcceleratorDesign& design);

}  // namespace foretrace
