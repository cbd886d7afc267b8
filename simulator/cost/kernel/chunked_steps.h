#pragma once
// Kernels of steps over lists of tensors, of which a block takes a chunk (PyTorch's foreach and
// fused optimizers, norms and scalings of gradients; apex).

#include <optional>
#include <string_view>

#include "simulator/cost/kernel/gpu_peaks.h"
#include "simulator/cost/kernel/launched_kernels.h"
#include "simulator/cost/operator/kernel_work.h"

namespace foretrace {

// What the chunks of a launch read and write, of elements of `dtype`, as if all were whole;
// nullopt: another kernel, or its grid is not known.
std::optional<KernelWork> WorkOfChunks(const Launch& launch, const GpuPeaks& device, DType dtype);

// KernelWork::bandwidth_share of such a kernel; 1: another one, or its grid is not known.
double BandwidthShareOfChunks(const Launch& launch, const GpuPeaks& device);

}  // namespace foretrace
