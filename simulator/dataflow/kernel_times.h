#pragma once
// What kernels and collectives take on a device, from measurements of it.

#include <cstdint>
#include <optional>

#include "simulator/dataflow/quantities.h"
#include "simulator/graph/loop_graph.h"

namespace foretrace::dataflow {

// Thread-safe.
class KernelTimes {
 public:
  virtual ~KernelTimes() = default;
  // Of an operator of one chip's `size`, for a micro-batch of samples, reading and writing memory.
  virtual RealNs Of(const LoopGraph& graph, OpId op, const LoopSizes& size,
                    double micro_batch) const = 0;
  // Of `bytes` on each of `chips` neighbours in the system's first dimension, which are those of a
  // node; nullopt: not measured, or of other sizes.
  virtual std::optional<RealNs> AllReduce(int64_t chips, RealBytes bytes) const = 0;
};

}  // namespace foretrace::dataflow
