#pragma once
// What PyTorch allocates while layers of a mapped transformer run, operator by operator.

#include <map>
#include <vector>

#include "simulator/mapping/caching_allocator.h"
#include "simulator/mapping/mapped_layer.h"
#include "simulator/mapping/sharded_pools.h"

namespace foretrace {

// What one layer of one micro-batch holds between its passes, by tensor.
struct HeldTensors {
  std::map<TensorId, CachingAllocator::Block> tensors;
  CachingAllocator::Block input = -1;   // none
  CachingAllocator::Block singly = -1;  // KeptSingly
};

// Layers of one kind. Keeps references to mapping and memory.
class LayerWalk {
 public:
  using Block = CachingAllocator::Block;

  LayerWalk(const TransformerConfig& model, const ParallelMapping& mapping,
            CachingAllocator& memory);

  const MappedLayer& layer() const { return layer_; }
  // Of what enters a layer.
  Bytes width() const { return Size(entering_); }
  // Elements of each weight; those that one GEMM reads side by side are one.
  std::vector<double> Weights() const;

  // Takes the block of what enters; gives that of what leaves. `kept`: whether a backward pass
  // follows; `again`: whether it will run this once more.
  Block Forward(Block input, bool kept, bool again, HeldTensors& held);
  // Takes the block of the output's gradient; gives that of the input's. `again`: the layer runs
  // once more before. Gradients of weights that are not added to others are handed to `pools` where
  // there are any.
  Block Backward(Block gradient, bool again, HeldTensors& held, ShardedPools* pools = nullptr);

 private:
  static size_t At(TensorId t) { return static_cast<size_t>(t); }
  Bytes Size(TensorId t) const { return SizeOf(g_, layer_.sizes(), t); }
  bool IsInput(TensorId t) const;
  size_t InBlock(TensorId t) const;
  bool Keeps(TensorId t, bool again) const;
  double ShareKept(TensorId t, bool again) const;
  void WeightGradients(const GraphOp& op, ShardedPools* pools);

  const ParallelMapping& m_;
  MappedLayer layer_;
  const OperatorGraph& g_;
  CachingAllocator& memory_;
  const bool eager_;
  const Bytes singly_;
  std::vector<bool> kept_;
  std::vector<OpId> first_reader_;  // whose backward pass is the last that needs the tensor
  std::vector<double> share_;
  std::vector<bool> followed_;
  std::vector<bool> in_parts_;  // by tensor: kept where layers are recomputed in parts
  TensorId entering_ = -1, leaving_ = -1;
};

}  // namespace foretrace
