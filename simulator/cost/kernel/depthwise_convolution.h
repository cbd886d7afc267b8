#pragma once
// Convolutions with filters of its own for each channel (groups of one).

#include "simulator/cost/kernel/gpu_peaks.h"
#include "simulator/cost/operator/kernel_work.h"

namespace foretrace {

bool IsDepthwise(const KernelWork& work);

// Time in microseconds of PyTorch's own kernels, in the place of which cuDNN's run only on images
// with their channels innermost and, of some sizes in float16, others. `bandwidth_efficiency`: of
// the DRAM's peak.
double DepthwiseConvolutionUs(const GpuPeaks& device, double bandwidth_efficiency,
                              const KernelWork& work);

}  // namespace foretrace
