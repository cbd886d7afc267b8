#pragma once
// Copies and casts of weights that are divided over replicas, and of their gradients.

#include <cstdint>

#include "simulator/cost/operator/kernel_work.h"
#include "simulator/mapping/iteration_model.h"
#include "simulator/mapping/kernel_coster.h"
#include "simulator/mapping/mapped_layer.h"

namespace foretrace {

// Where weights are divided parameter by parameter, in seconds: of gathered shards, which lie rank
// by rank, into whole parameters, before each pass; of gradients, cast and rank by rank, into the
// buffer that is reduced. Both on the stream that computes (torch/distributed/fsdp/_fully_shard/
// _fsdp_collectives.py, foreach_all_gather_copy_out and foreach_reduce_scatter_copy_in). A single
// replica does so, too, and casts its 32-bit masters there (recordings, traces/captured/h100-sxm5).
struct ShardCopies {
  double weights = 0, gradients = 0;
};

// Keeps references to all; notes in `sources` what it asks.
class ShardCopier {
 public:
  ShardCopier(const MappedLayer& layer, const ParallelMapping& mapping,
              const ClusterParameters& cluster, CostSources& sources)
      : l_(layer), m_(mapping), p_(cluster), kernels_(cluster), sources_(sources) {}

  // Whether gradients are copied into the buffer that is reduced, of as many bits as that has.
  bool copies() const;
  // `trained`: of the elements; `own`: of these the part that a replica keeps the gradients of.
  ShardCopies Of(double elements, double trained, double own, int64_t weight_bytes) const;

 private:
  double Reduced(int64_t gradients, double own) const;
  double Call(const OperatorCall::Shape& shape, DType dtype) const {
    return kernels_.CallSeconds(shape, dtype, sources_);
  }

  const MappedLayer& l_;
  const ParallelMapping& m_;
  const ClusterParameters& p_;
  KernelCoster kernels_;
  CostSources& sources_;
};

}  // namespace foretrace
