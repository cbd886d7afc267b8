#pragma once
// Norms and softmax that no benchmark table covers, from the rates of the device's file.

#include "simulator/cost/kernel/gpu_peaks.h"
#include "simulator/cost/kernel/roofline.h"
#include "simulator/cost/operator/kernel_work.h"

namespace foretrace {

// Time in microseconds of a row-wise kernel (IsRowWise), from the parameters of the device's
// streaming kernels.
double AnalyticRowsUs(const MemoryParameters& streaming, const GpuPeaks& device,
                      const KernelWork& work);

}  // namespace foretrace
