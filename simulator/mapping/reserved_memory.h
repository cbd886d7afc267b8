#pragma once
// What the framework's allocator reserves of a device beyond the tensors at their peak.

#include "absl/status/statusor.h"
#include "simulator/base/units.h"
#include "simulator/mapping/parallel_mapping.h"

namespace foretrace {

// What a process of training holds of its device beside that allocator: its context with the
// kernels' code, some 0.4 GiB, and NCCL's buffers, 1.6 GB once a communicator has reduced and up to
// 6 with three and more (NVIDIA/nccl, issue 864). The least of these, so that a run which is said
// not to fit does not.
inline constexpr Bytes kBesideAllocator{int64_t{2} << 30};
// Whether that leaves no room for what the allocator reserves. Zero bytes of a device: not known.
constexpr bool Overflows(Bytes reserved, Bytes device) {
  return device > Bytes() && reserved + kBesideAllocator > device;
}

// Of a stage: its tensors are allocated and freed in the order of its passes through PyTorch's
// caching allocator (caching_allocator.h), operator by operator: what is kept until the backward
// pass reads it, results and gradients as long as a later operator needs them; layers' gathered
// weights under zero 3; moments at the end of the first iteration. Two iterations, the second as
// the following ones; of micro-batches as many as are in flight and two. Workspaces of libraries
// are not in it.
// Errors: as CheckMapping.
struct AllocatorMemory {
  // Of the tensors that were followed, at most: on the stream that computes, and, under FSDP2, on
  // others, whose memory is a pool of its own (ShardedPools).
  Bytes allocated, reserved, on_other_streams;
  Bytes Fragments() const { return reserved - allocated; }
  // Of a stage whose tensors are `tensors` at their peak. Under FSDP2 what was followed, as what
  // streams hold is not there at once.
  Bytes Reserved(Bytes tensors) const {
    return on_other_streams > Bytes() ? reserved + on_other_streams : tensors + Fragments();
  }
};
absl::StatusOr<AllocatorMemory> FollowAllocations(const TransformerConfig& model,
                                                  const ParallelMapping& mapping, int32_t stage);

// Fragments of the stage whose tensors and fragments are most together, and both.
absl::StatusOr<Bytes> ReservedMemoryOf(const TransformerConfig& model,
                                       const ParallelMapping& mapping);

}  // namespace foretrace
