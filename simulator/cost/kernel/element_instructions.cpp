#include "simulator/cost/kernel/element_instructions.h"

#include <algorithm>

#include "simulator/cost/operator/element_work.h"

namespace foretrace {

double ElementInstructions(KernelRole role, const ElementAccess& access) {
  const auto elements = static_cast<double>(std::max<int64_t>(access.elements, 0));
  const auto tensors = static_cast<double>(access.tensors);
  switch (role) {
    case KernelRole::kStrided:
      return StridedInstructions(elements, static_cast<double>(access.dimensions), tensors);
    case KernelRole::kStridedConverted:
      return StridedInstructions(elements, static_cast<double>(access.dimensions), tensors) +
             ConvertedInstructions(elements, tensors) - ConvertedInstructions(elements, 0);
    case KernelRole::kConverted:
      return ConvertedInstructions(elements, tensors);
    case KernelRole::kConcat:
      return ConcatInstructions(elements);
    case KernelRole::kGather:
      return GatherInstructions(elements);
    default:
      return 0;
  }
}

double PoolInstructions(std::string_view name, double elements) {
  return name.find("max_pool_backward_nchw") == name.npos ? 0
                                                          : MaxPoolGradientInstructions(elements);
}

}  // namespace foretrace
