#pragma once
// Attention over a ring of context-parallel devices (ParallelMapping::ring): first over the own
// keys, under the mask; then over each other part's, of which the causal mask leaves half. Of the
// devices the one whose steps have all of its queries is counted.

#include <utility>

#include "simulator/mapping/group_costs.h"
#include "simulator/mapping/kernel_coster.h"
#include "simulator/mapping/mapped_layer.h"

namespace foretrace {

// Keeps references to all.
class RingAttention {
 public:
  RingAttention(const MappedLayer& layer, const ParallelMapping& mapping,
                const ClusterParameters& cluster, const GroupCosts& groups, CostSources& sources)
      : l_(layer),
        m_(mapping),
        p_(cluster),
        groups_(groups),
        kernels_(cluster),
        sources_(sources) {}

  // Of the forward and the backward pass of the operator `id`, with what is exchanged meanwhile and
  // not hidden.
  std::pair<double, double> Seconds(OpId id) const;

 private:
  // What a pass's steps run and pass on.
  struct Steps {
    DType dtype = DType::kUnknown;
    int64_t queries = 0, keys = 0;  // elements of a device's queries; of its keys and values
    double own = 0, other = 0;      // attention of the first step, and of each further one
    double hop = 0;                 // bytes of `keys` once from neighbour to neighbour, seconds
    double gather = 0;              // the same of all devices to all
  };
  double Forward(const Steps& s) const;
  double Backward(const Steps& s) const;
  double MergedForward(const Steps& s) const;
  double MergedBackward(const Steps& s) const;
  double CompiledForward(const Steps& s) const;
  double CompiledBackward(const Steps& s) const;

  double Call(const OperatorCall::Shape& shape, DType dtype) const {
    return kernels_.Seconds(Kernels({shape, dtype, Direction::kForward}), sources_);
  }
  double Others() const { return m_.context - 1; }

  const MappedLayer& l_;
  const ParallelMapping& m_;
  const ClusterParameters& p_;
  const GroupCosts& groups_;
  KernelCoster kernels_;
  CostSources& sources_;
};

}  // namespace foretrace
