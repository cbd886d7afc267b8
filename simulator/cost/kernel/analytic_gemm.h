#pragma once
// GEMMs of a device whose file alone is known: no benchmark table covers its arithmetic.

#include "simulator/cost/kernel/gpu_peaks.h"
#include "simulator/cost/kernel/roofline.h"
#include "simulator/cost/operator/kernel_work.h"

namespace foretrace {

// Whether libraries run kernels of one kind on both devices, so that what one shows of them the
// other shares.
bool SameGemmKernels(const GpuPeaks& a, const GpuPeaks& b, Precision precision, KernelKind kind);

// What the roofline takes of GEMMs in that arithmetic, by the units that compute it: without tensor
// cores, on tensor cores whose instructions a warp issues, on those of a warpgroup and later ones.
GemmParameters AnalyticGemm(const GpuPeaks& device, Precision precision);

// Time in microseconds of a GEMM, or of many alike: no less than its FLOP take at what the board
// keeps up at its power limit, where its file says that.
double AnalyticGemmUs(const GpuPeaks& device, Precision precision, const KernelWork& work);

}  // namespace foretrace
