#pragma once
// Cycles of operators on vector cores, as the published estimator has them (Tandem; github.com/
// msr-fiddle/phaze fed7cde): a fixed number of cycles for each element of a lane.

#include <cstdint>

#include "simulator/cost/operator/operator.h"

namespace foretrace {

enum class VectorKind : uint8_t {
  kAdd,
  kMul,
  kSub,
  kDiv,
  kTanh,
  kSigmoid,
  kDropout,
  kLayerNorm,
  kRelu,  // and GELU
  kNeg,
  kPow,
  kSqrt,
  kErf,
  kMean,
  kSoftmax,
  kFused,  // what follows a tensor operator on its pair
  kCount,
};

// What a vector operator costs: cycles of a lane for each element, and once.
struct VectorCost {
  double per_element = 0;
  int64_t once = 0;
};
VectorCost CostOf(VectorKind kind, Direction pass);

// ceil(elements / (cores * width)) groups of elements, one a lane.
int64_t VectorCycles(int64_t elements, const VectorCost& cost, int64_t cores, int64_t width);

}  // namespace foretrace
