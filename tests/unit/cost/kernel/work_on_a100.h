#pragma once
// Kernels of single calls, and a device to run them on.

#include <utility>

#include "simulator/cost/kernel/gpu_peaks.h"
#include "simulator/cost/operator/kernel_work.h"

namespace foretrace {

inline KernelWork Only(OperatorCall::Shape shape, DType dtype = DType::kFloat32) {
  return Kernels({std::move(shape), dtype, Direction::kForward})[0];
}

inline const GpuPeaks& A100() {
  static const GpuPeaks device = *FindGpuPeaks("a100-pcie-40gb");
  return device;
}

}  // namespace foretrace
