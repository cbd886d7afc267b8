#pragma once
// Which units of a device do a piece of its work.

#include "simulator/trace/rank_trace.h"

namespace foretrace {

// Multiprocessors run kernels, fill memory and copy within the device's own; copies from and to
// other memory are left to copy engines. Copies within the device go beside kernels where kernels
// go beside each other (`concurrentKernels`), others where there are copy engines
// (`asyncEngineCount`): CUDA C++ Programming Guide, "Overlap of Data Transfer and Kernel
// Execution".
inline bool OnMultiprocessors(const RankTrace& rank, NodeIndex device) {
  return rank.kind(device) != NodeKind::kMemcpy ||
         rank.memcpy_kind(device) == MemcpyKind::kDeviceToDevice;
}

}  // namespace foretrace
