#pragma once
// What the names of CUDA's, HIP's and SYCL's calls, of copies and of kernels mean, whatever the
// format that carries them.

#include <string_view>

#include "simulator/trace/kinds.h"

namespace foretrace {

// "cudaLaunchKernelExC", "cuMemcpyDtoHAsync_v2", "hipMemcpyWithStream", "urQueueFinish", ...
RuntimeCall ParseRuntimeCall(std::string_view name);

// "Memcpy HtoD (Pinned -> Device)". HIP says "Host" for either kind of host memory: such copies
// come out as pinned with `host_kind_known` false.
MemcpyKind ParseMemcpyKind(std::string_view name, bool& host_kind_known);

// Whether a kernel is a collective of NCCL or RCCL.
bool IsCollectiveKernel(std::string_view name);

}  // namespace foretrace
