#pragma once
// What Kineto's categories and the names of calls, copies and kernels mean, across PyTorch 1.8 to
// 2.x and both vendors.

#include <cstdint>
#include <optional>
#include <string_view>

#include "simulator/trace/kinds.h"

namespace foretrace::kineto {

enum class Category : uint8_t {
  kCpuOp,
  kAnnotation,
  kRuntime,
  kKernel,
  kMemcpy,
  kMemset,
  kSync,     // an event or stream wait as the device's tracer saw it; belongs to a runtime call
  kIgnored,  // known and without meaning here: flows, Python frames, memory instants, spans
  kUnknown,
};

Category ParseCategory(std::string_view category);

// "cudaLaunchKernelExC", "cuMemcpyDtoHAsync_v2", "hipMemcpyWithStream", ...
RuntimeCall ParseRuntimeCall(std::string_view name);

// "Memcpy HtoD (Pinned -> Device)". HIP says "Host" for either kind of host memory: such copies
// come out as pinned with `host_kind_known` false.
MemcpyKind ParseMemcpyKind(std::string_view name, bool& host_kind_known);

// Whether a kernel is a collective of NCCL or RCCL.
bool IsCollectiveKernel(std::string_view name);

// The number in "ProfilerStep#12"; nullopt for other names. Recordings without such marks: see
// trace/serving_step.h.
std::optional<int64_t> ParseStepMark(std::string_view name);

}  // namespace foretrace::kineto
