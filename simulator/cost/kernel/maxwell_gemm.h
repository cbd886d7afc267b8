#pragma once
// GEMMs in float32 on devices before Volta: cuBLAS runs its kernels for Maxwell there
// ("maxwell_sgemm_32x128_tn").

#include "simulator/cost/kernel/gpu_peaks.h"
#include "simulator/cost/kernel/roofline.h"
#include "simulator/cost/operator/kernel_work.h"

namespace foretrace {

bool RunsMaxwellGemms(const GpuPeaks& device);

// Time in microseconds of a plain GEMM. `parameters`: of GEMMs on multiprocessors, for kernels of
// which it is not known what they reach.
double MaxwellGemmUs(const GemmParameters& parameters, const GpuPeaks& device,
                     const KernelWork& work);

}  // namespace foretrace
