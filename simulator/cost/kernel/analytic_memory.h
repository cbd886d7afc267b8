#pragma once
// Kernels bound by memory that no benchmark table covers: how they differ from streaming ones.

#include "simulator/cost/kernel/gpu_peaks.h"
#include "simulator/cost/kernel/roofline.h"
#include "simulator/cost/operator/kernel_work.h"

namespace foretrace {

// Time in microseconds of a kernel that is not row-wise, from the parameters of the device's
// streaming kernels and what its class adds to them. Classes without an entry stream.
double AnalyticMemoryUs(const MemoryParameters& streaming, const GpuPeaks& device,
                        const KernelWork& work);

// `streaming` for a kernel that moves more than the cache holds: at most what DRAM keeps up.
MemoryParameters BeyondCache(const MemoryParameters& streaming, const GpuPeaks& device,
                             const KernelWork& work);

// What DRAM takes at least of an element-wise kernel in a job, which benchmarks do not show: they
// repeat a call, whose tensors the cache holds in part. 0: the cache holds all.
double PastCacheUs(const GpuPeaks& device, const KernelWork& work);

// What an element-wise kernel of a job moves in `moved_us` from memory, where the cache still has
// part of what the kernel before wrote: the input of an activation.
double WithCachedInputUs(const GpuPeaks& device, const KernelWork& work, double moved_us);

}  // namespace foretrace
