#include "simulator/architect/vector_cycles.h"

#include <cmath>

namespace foretrace {

VectorCost CostOf(VectorKind kind, Direction pass) {
  const auto cost = [&](double forward, double backward) {
    return VectorCost{pass == Direction::kForward ? forward : backward, 0};
  };
  switch (kind) {
    case VectorKind::kAdd:
    case VectorKind::kMul:
    case VectorKind::kSub:
      return cost(1, 2);
    case VectorKind::kDiv:
      return cost(10, 21);
    case VectorKind::kTanh:
      return cost(27, 2);
    case VectorKind::kSigmoid:
      return cost(12, 22);
    case VectorKind::kDropout:
      return cost(2, 1);
    case VectorKind::kLayerNorm:
    case VectorKind::kRelu:
    case VectorKind::kNeg:
      return cost(1, 1);
    case VectorKind::kPow:
    case VectorKind::kSqrt:
      return cost(15, 16);
    case VectorKind::kErf:
      return cost(15, 15);
    case VectorKind::kMean:
      return cost(3.5, 3.5);
    case VectorKind::kSoftmax:
      return pass == Direction::kForward ? VectorCost{11, 10} : VectorCost{2, 0};
    case VectorKind::kFused:
      return cost(4, 4);
    case VectorKind::kCount:
      break;
  }
  return {};
}

int64_t VectorCycles(int64_t elements, const VectorCost& cost, int64_t cores, int64_t width) {
  const int64_t lanes = cores * width;
  const int64_t groups = (elements + lanes - 1) / lanes;
  return static_cast<int64_t>(std::ceil(static_cast<double>(groups) * cost.per_element)) +
         cost.once;
}

}  // namespace foretrace
