#pragma once
// Kernels of single calls, and a device to run them on.

#include <utility>

#include "simulator/cost/kernel/gpu_peaks.h"
#include "simulator/cost/operator/kernel_work.h"

namespace foretrace {

inline KernelWork Only(OperatorCall::Shape shape, DType dtype = DType::kFloat32) {
  return Kernels({std::move(shape), dtype, Direction::kForward})[0];
}

// At its boost clock.
inline const GpuPeaks& A100() {
  static const GpuPeaks device = [] {
    GpuPeaks peaks = *FindGpuPeaks("a100-pcie-40gb");
    peaks.sustained_fp32_tflops = 0;
    return peaks;
  }();
  return device;
}

}  // namespace foretrace
