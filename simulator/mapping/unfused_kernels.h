#pragma once
// The kernels of a mapped layer's operators as the software runs them, where these are more than
// the graph has.

#include "simulator/mapping/iteration_model.h"
#include "simulator/mapping/mapped_layer.h"

namespace foretrace {

// Keeps references to both.
class UnfusedKernels {
 public:
  UnfusedKernels(const MappedLayer& layer, const ClusterParameters& cluster)
      : l_(layer), p_(cluster) {}

  // Changes what an operator runs forward and backward.
  void Apply(OpId id, KernelList& forward, BackwardWork& backward) const;

 private:
  void Separate(OpId id, KernelList& forward, BackwardWork& backward) const;
  static void ShareBlocks(KernelList& list);
  void SumNorms(const GraphOp& op, KernelList& backward) const;
  // The kernels that a fused one stands for beyond itself, as PyTorch runs them eagerly.
  void AddNormSteps(const GraphOp& op, KernelList& forward, KernelList& backward) const;
  void AddRotarySteps(const GraphOp& op, KernelList& list) const;
  void AddGateSteps(const GraphOp& op, KernelList& forward, KernelList& backward) const;
  void RepeatKeys(const GraphOp& op, KernelList& forward, KernelList& backward) const;
  void CopyGroups(const GraphOp& op, KernelList& forward, KernelList& backward) const;

  void AddScoreSteps(const GraphOp& op, KernelList& forward, KernelList& backward) const;
  void CopyHeads(const GraphOp& op, KernelList& forward, KernelList& backward) const;
  void AddGeluSteps(const GraphOp& op, KernelList& forward, KernelList& backward) const;
  void AddResidualSteps(const GraphOp& op, KernelList& forward) const;
  // What a loss takes: their type, whether it has fewer than 32 bits, their number, and rows of
  // them.
  struct Logits {
    DType dtype;
    bool narrow;
    int64_t n;
    ReductionOp rows;
  };
  Logits LogitsOf(const GraphOp& op) const;
  // What the loss runs by its form, in place of or beside the graph's kernels.
  void AddLossSteps(const GraphOp& op, KernelList& forward, KernelList& backward) const;
  void AddParallelLossSteps(const GraphOp& op, KernelList& forward, KernelList& backward) const;

  // As many times as long rows of logits take as a stream of their bytes.
  double SlowerRows() const;
  int64_t Count(TensorId id) const { return Elements(l_.graph(), l_.sizes(), id); }

  const MappedLayer& l_;
  const ClusterParameters& p_;
};

}  // namespace foretrace
