#pragma once
// Attention over a ring of context-parallel devices (ParallelMapping::ring): first over the own
// keys, under the mask; then over each other part's, of which the causal mask leaves half. Of the
// devices the one whose steps have all of its queries is counted.

#include "simulator/mapping/group_costs.h"
#include "simulator/mapping/kernel_coster.h"
#include "simulator/mapping/kernel_forms.h"
#include "simulator/mapping/mapped_layer.h"

namespace foretrace {

// A pass, in seconds: all its kernels, and of these attention of the first step and of each further
// one.
struct RingPass {
  double kernels = 0, own = 0, other = 0;
  PassKernels attention;
};
struct RingCost {
  RingPass forward, backward;
};

// Keeps references to all.
class RingAttention {
 public:
  RingAttention(const MappedLayer& layer, const ParallelMapping& mapping,
                const ClusterParameters& cluster, CostSources& sources)
      : l_(layer), m_(mapping), p_(cluster), kernels_(cluster), sources_(sources) {}

  RingCost Cost(OpId id) const;

 private:
  // What a pass's steps run.
  struct Steps {
    DType dtype = DType::kUnknown;
    int64_t queries = 0, keys = 0;  // elements of a device's queries; of its keys and values
    int64_t passing = 0;            // of another part's keys and values those that a step takes
    double own = 0, other = 0;      // attention of the first step, and of each further one
  };
  double Forward(const Steps& s) const;
  double Backward(const Steps& s) const;
  // The copy of the half that the causal mask leaves of what arrived.
  double Half(const Steps& s) const;
  double MergedForward(const Steps& s) const;
  double MergedBackward(const Steps& s) const;
  double CompiledForward(const Steps& s) const;
  double CompiledBackward(const Steps& s) const;

  double Call(const OperatorCall::Shape& shape, DType dtype) const {
    return kernels_.CallSeconds(shape, dtype, sources_);
  }
  double Others() const { return m_.context - 1; }

  const MappedLayer& l_;
  const ParallelMapping& m_;
  const ClusterParameters& p_;
  KernelCoster kernels_;
  CostSources& sources_;
};

// What `devices` exchange meanwhile, of which the steps' attention hides some. `part`: of a
// device's keys and values.
PassExchanges RingExchanges(const RingCost& cost, const KernelForms& forms, int32_t devices,
                            Bytes part, const GroupCosts& groups);

}  // namespace foretrace
