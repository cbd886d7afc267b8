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
    case KernelRole::kGather:
      return GatherInstructions(elements);
    default:
      return 0;
  }
}

bool ConvertsChunks(std::string_view name) {
  return name.find("chunk_cat_cuda_kernel<float, c10::BFloat16") != name.npos;
}

double PoolInstructions(std::string_view name, double elements) {
  const auto has = [name](std::string_view part) { return name.find(part) != name.npos; };
  if (has("max_pool_backward_nchw")) return MaxPoolGradientInstructions(elements);
  // Windows of channels that lie together are kept in shared memory; counts are what
  // resnet50-b256-bf16's take (H100, traces/README.md, "Captured") beside their bytes.
  constexpr double kForwardNhwc = 58, kBackwardNhwc = 130;
  if (has("max_pool_forward_nhwc")) return kForwardNhwc * elements;
  return has("max_pool_backward_nhwc") ? kBackwardNhwc * elements : 0;
}

}  // namespace foretrace
