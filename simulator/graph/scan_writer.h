#pragma once
// What the calls of a state-space scan and of a delta rule have in common.

#include <algorithm>
#include <utility>

#include "simulator/graph/state_scan.h"

namespace foretrace {

// A product that stops at 2^52, so that bytes of a few such tensors add up to a number of 64 bits.
inline int64_t ScanSize(std::initializer_list<int64_t> factors) {
  return std::min(SaturatingProduct(factors), int64_t{1} << 52);
}

inline constexpr double kScanActivation = 4;  // FLOP of SiLU

// Of a delta rule inputs are values, and readers keys or queries.
class ScanWriter {
 protected:
  static constexpr DType kWide = DType::kFloat32;
  static constexpr int64_t kWideBytes = 4;

  explicit ScanWriter(const StateScan& scan)
      : s_(scan),
        rows_(ScanSize({s_.samples, s_.tokens})),
        inputs_(ScanSize({rows_, s_.groups, s_.width})),
        readers_(ScanSize({rows_, s_.groups, s_.state})),
        steps_(ScanSize({rows_, s_.heads})),
        element_(ElementSize(s_.dtype)) {}

  double PerConvolved() const { return 2 * static_cast<double>(s_.taps) + kScanActivation; }
  int64_t Convolved() const { return inputs_ + 2 * readers_; }

  void Add(OperatorCall::Shape shape, DType dtype) {
    calls_.push_back({std::move(shape), dtype, Direction::kForward});
  }
  void Copy(int64_t n) { Add(CopyOp{n, true}, s_.dtype); }
  void Pointwise(int64_t n, int64_t read, int64_t outputs, DType dtype, double flop = 1,
                 DType to = DType::kUnknown) {
    Add(ElementwiseOp{n, read, outputs, flop, to}, dtype);
  }
  void Convolve() { Pointwise(Convolved(), Convolved(), 1, s_.dtype, PerConvolved()); }

  // The type of states that an engine keeps in so many bytes.
  DType Kept(int64_t state_width) const { return state_width == kWideBytes ? kWide : s_.dtype; }
  void CopyStates(int64_t sequences, int64_t state_width) {
    if (sequences <= 0) return;
    Add(CopyOp{ScanSize({sequences, s_.groups, s_.width, s_.state}), true}, Kept(state_width));
  }

  const StateScan& s_;
  // Elements: of tokens, of tensors.
  int64_t rows_, inputs_, readers_, steps_, element_;
  CallList calls_;
};

}  // namespace foretrace
