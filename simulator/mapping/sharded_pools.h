#pragma once
// What PyTorch's FSDP2 allocates for weights that are divided parameter by parameter, on which
// stream (torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py, _fsdp_param_group.py). The
// allocator keeps a pool for each stream, whose memory no other takes.

#include <vector>

#include "simulator/base/real_sizes.h"
#include "simulator/mapping/caching_allocator.h"
#include "simulator/mapping/mapped_layer.h"

namespace foretrace {

// Of one stage. Weights are gathered into a buffer of the gathering stream's pool and copied out of
// it, parameter by parameter, into the computing stream's, `main`; that buffer is freed when the
// next one was copied. A layer's gradients are copied into a buffer of `main` to be reduced, which
// stays until the next layer's is made. What comes of the reductions, the gradients that the
// optimizer takes, is the reducing stream's.
class ShardedPools {
 public:
  // `weights`: elements of each of a layer's. `gradients`: what a device keeps of them. References
  // are kept.
  ShardedPools(const MappedLayer& layer, const ParallelMapping& mapping, int32_t stage,
               std::vector<double> weights, Bytes gradients, bool expandable,
               CachingAllocator& main);

  // The weights outside of layers, which stay until their gradients are reduced.
  void GatherRoot();
  void ReduceRoot();
  // Starts to gather a layer; copies out what was gathered first.
  void Gather();
  void CopyOut();
  void Reshard();  // the layer whose weights were copied out last
  // The gradient of one of the layer's weights, and of the output layer's.
  void AddGradient(Bytes size) { gradients_.push_back(main_.Allocate(size)); }
  void AddHeadGradient() { head_ = main_.Allocate(WholeBytes(e_ * layer_.head())); }
  void ReduceLayer();

  // Of the other streams.
  Bytes reserved() const { return gathered_.reserved() + reduced_; }

 private:
  using Block = CachingAllocator::Block;
  void Free(std::vector<Block>& blocks);

  const MappedLayer& layer_;
  CachingAllocator& main_;
  CachingAllocator gathered_;
  Bytes reduced_;
  std::vector<double> weights_;
  double e_ = 0, g_ = 0;  // bytes an element of weights; of gradients as they are reduced
  double root_ = 0, embedding_ = 0, trained_root_ = 0;  // elements
  std::vector<Block> buffers_;                          // in the order in which they were asked for
  Block copied_ = -1;                                   // the buffer that was copied out last
  std::vector<Block> root_copies_, copies_, gradients_;
  Block head_ = -1, reducing_ = -1;
};

}  // namespace foretrace
