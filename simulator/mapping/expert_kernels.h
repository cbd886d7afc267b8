#pragma once
// The kernels of a mixture of experts as software runs them that does not fuse all.

#include "simulator/mapping/iteration_model.h"
#include "simulator/mapping/mapped_layer.h"

namespace foretrace {

// Whether KernelForms::fused_experts runs an operator, one of a layer with experts.
bool RunsFused(const GraphOp& op, const MappedLayer& layer, const ParallelMapping& mapping,
               const ClusterParameters& cluster);

// Keeps references to all.
class ExpertKernels {
 public:
  ExpertKernels(const MappedLayer& layer, const ParallelMapping& mapping,
                const ClusterParameters& cluster)
      : l_(layer), m_(mapping), p_(cluster) {}

  // Changes what an operator runs forward and backward.
  void Apply(const GraphOp& op, KernelList& forward, BackwardWork& backward) const;

 private:
  bool RunsOneByOne(const KernelWork& batch) const;
  // One GEMM for each expert that is at home; by software that runs one expert after another
  // results are put together too, and backward the gradients of their inputs.
  void OneByOne(const GraphOp& op, KernelList& forward, BackwardWork& backward) const;
  // Of KernelForms::stepwise_expert_biases.
  void AddBiases(const GraphOp& op, KernelList& forward, KernelList& backward) const;
  void Clamp(const GraphOp& op, KernelList& forward, KernelList& backward) const;
  // Elements of `id` at the device's experts.
  int64_t CountAtExperts(TensorId id) const;
  void ChooseTokens(const GraphOp& op, KernelList& forward, KernelList& backward) const;
  void GatherRows(const GraphOp& op, KernelList& forward, KernelList& backward) const;
  void AddUp(const GraphOp& op, KernelList& forward, KernelList& backward) const;

  int64_t Count(TensorId id) const { return Elements(l_.graph(), l_.sizes(), id); }

  const MappedLayer& l_;
  const ParallelMapping& m_;
  const ClusterParameters& p_;
};

}  // namespace foretrace
