#pragma once
// What the kernels of a batch norm say of it.

#include <span>
#include <string_view>

#include "simulator/cost/kernel/gpu_peaks.h"
#include "simulator/cost/operator/kernel_work.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// A batch norm of kernels that take no statistics is given those of training: cuDNN's and MIOpen's
// of inference, PyTorch's second kernel alone.
bool TakesStatistics(std::string_view name);

// The main kernel of a batch norm whose channels lie together; invalid: another one's.
NodeIndex ChannelsLast(const TraceStore& store, const RankTrace& rank,
                       std::span<const NodeIndex> mains);
// Its kernels, of `waves` of blocks.
KernelList ChannelsLastNorm(const KernelWork& whole, bool forward, double waves);

// Of a kernel of that name, which may keep a channel between its passes.
void AsSingleRead(const GpuPeaks& device, std::string_view name, KernelWork& work);

}  // namespace foretrace
