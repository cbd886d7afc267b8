#pragma once
// What a kernel takes on a device, from measurements of it.

#include <array>
#include <cstdint>
#include <string>

#include "simulator/dataflow/workload.h"

namespace foretrace::dataflow {

// Thread-safe.
class KernelTimes {
 public:
  virtual ~KernelTimes() = default;
  // Of a kernel of one chip's `size`, for a micro-batch of samples, reading and writing memory.
  virtual double Ns(const Kernel& kernel, const std::array<int64_t, kDimensions>& size,
                    double micro_batch) const = 0;
};

}  // namespace foretrace::dataflow
