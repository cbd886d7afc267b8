#pragma once
// Operators of calls whose shapes were not recorded, by the launches of their kernels.

#include "simulator/cost/kernel/gpu_peaks.h"
#include "simulator/cost/kernel/kernel_calls.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// Adds calls without shapes (profiles without record_shapes) of which grids, the names of kernels
// and what flows between them tell the sizes: element-wise ones, linear layers, products of
// batches, attention, norms, softmax. All are marked as assumed. `device`: on which they ran, or
// one of its chip.
void InferShapes(const TraceStore& store, const RankTrace& rank, const GpuPeaks& device,
                 KernelCalls& calls);

}  // namespace foretrace
