#pragma once
// Operators of calls whose shapes were not recorded, by the launches of their kernels.

#include <optional>

#include "simulator/cost/kernel/gpu_peaks.h"
#include "simulator/cost/traced/kernel_calls.h"
#include "simulator/cost/traced/launch_flow.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// Gives operators to calls without shapes (profiles without record_shapes), to kernels of functions
// and to those without a call, of which grids, the names of kernels and what flows between them
// tell the sizes: element-wise ones, linear layers, products of batches, attention, norms, softmax.
// All are marked as assumed. `device`: on which they ran, or one of its chip. What it looked at;
// nullopt: nothing, there is none of these.
std::optional<LaunchFlow> InferShapes(const TraceStore& store, const RankTrace& rank,
                                      const GpuPeaks& device, KernelCalls& calls);

}  // namespace foretrace
