#pragma once
// GEMMs of 8 bits whose parts of 128 x 128 have scales of their own, on tensor cores that know
// none.

#include "simulator/cost/kernel/gpu_peaks.h"
#include "simulator/cost/operator/kernel_work.h"

namespace foretrace {

// Time in microseconds of DeepGEMM's kernels for Hopper, as TensorRT-LLM runs them.
double ScaledBlockGemmUs(const GpuPeaks& device, double bandwidth_efficiency,
                         const KernelWork& work);

}  // namespace foretrace
