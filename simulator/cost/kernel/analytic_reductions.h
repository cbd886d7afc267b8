#pragma once
// Sums down columns and along rows by PyTorch's reduce_kernel, from the rates of the device's file.

#include "simulator/cost/kernel/gpu_peaks.h"
#include "simulator/cost/kernel/roofline.h"
#include "simulator/cost/operator/kernel_work.h"

namespace foretrace {

// Time in microseconds of a KernelKind::kReduction, from the parameters of the device's streaming
// kernels.
double AnalyticReductionUs(const MemoryParameters& streaming, const GpuPeaks& device,
                           const KernelWork& work);

}  // namespace foretrace
