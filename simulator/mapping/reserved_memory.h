#pragma once
// What the framework's allocator reserves of a device beyond the tensors at their peak.

#include "absl/status/statusor.h"
#include "simulator/base/units.h"
#include "simulator/mapping/parallel_mapping.h"

namespace foretrace {

// Of a stage: its tensors are allocated and freed in the order of its passes through PyTorch's
// caching allocator (caching_allocator.h), operator by operator: what is kept until the backward
// pass reads it, results and gradients as long as a later operator needs them; layers' gathered
// weights under zero 3; moments at the end of the first iteration. Two iterations, the second as
// the following ones; of micro-batches as many as are in flight and two. Workspaces of libraries,
// buffers of communication and the device's context are not in it.
// Errors: as CheckMapping.
struct AllocatorMemory {
  Bytes allocated, reserved;  // of the tensors that were followed, at most
  Bytes Fragments() const { return reserved - allocated; }
};
absl::StatusOr<AllocatorMemory> FollowAllocations(const TransformerConfig& model,
                                                  const ParallelMapping& mapping, int32_t stage);

// Fragments of the stage whose tensors and fragments are most together, and both.
absl::StatusOr<Bytes> ReservedMemoryOf(const TransformerConfig& model,
                                       const ParallelMapping& mapping);

}  // namespace foretrace
