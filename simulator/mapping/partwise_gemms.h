#pragma once
// GEMMs of tensor parallelism that run part by part beside the exchange of what they take or
// make.

#include "simulator/mapping/group_costs.h"
#include "simulator/mapping/kernel_coster.h"
#include "simulator/mapping/mapped_layer.h"

namespace foretrace {

// On which side of the tensor-parallel region a GEMM of a layer stands.
enum class RegionEdge : uint8_t { kNone, kEnters, kLeaves };
RegionEdge EdgeOf(const MappedLayer& layer, const GraphOp& op);

// Whether what tensor-parallel ranks gather at that edge was cast before, by the rank that had it
// (SoftwareBehaviour::casts_before_gathers). By blocks torchao gathers in 16 bits.
bool GathersCast(RegionEdge edge, const ParallelMapping& mapping, const ClusterParameters& cluster);
// The bytes of what is gathered there, cast where it is so, over those of elements of `dtype`, with
// its share of the scales by block. These make either order of it a copy of its own: a gradient,
// which is gathered once, has both.
double GatheredShare(RegionEdge edge, DType dtype, const ParallelMapping& mapping,
                     const ClusterParameters& cluster);

// Whether the exchange at a GEMM's edge runs beside it: forward (ParallelMapping::async_tensor,
// chunked_tensor); backward the gathering of its result's gradient (chunked_tensor).
bool RunsBesideForward(RegionEdge edge, const ParallelMapping& mapping);
bool RunsBesideBackward(RegionEdge edge, const ParallelMapping& mapping);

// Parts that a GEMM runs in, and what each has of the device's multiprocessors.
struct GemmSplit {
  int32_t parts = 1;
  double share = 1;
};
// Forward. `multiprocessors` of the device; 0: not known.
GemmSplit SplitOf(RegionEdge edge, const ParallelMapping& mapping, int32_t multiprocessors);

class PartwiseGemms {
 public:
  PartwiseGemms(const MappedLayer& layer, const ParallelMapping& mapping,
                const ClusterParameters& cluster, const GroupCosts& groups, CostSources& sources)
      : l_(layer),
        m_(mapping),
        p_(cluster),
        groups_(groups),
        kernels_(cluster),
        sources_(sources) {}

  // Forward: the input's gathering beside a GEMM that enters the region, the output's scattering
  // beside one that leaves it. `whole`: of the operator without exchanges.
  double Forward(OpId id, RegionEdge edge, double whole) const;
  // Backward, of a GEMM that leaves the region: the gathering of its output's gradient beside
  // the input's. (ParallelMapping::chunked_tensor.)
  double Backward(OpId id, double whole) const;

 private:
  // The transfers of the others
  // follow one another; the first or the last part's GEMM has none to run beside.
  double Beside(OpId id, const GemmSplit& split, bool backward, TensorId passed,
                double whole) const;

  const MappedLayer& l_;
  const ParallelMapping& m_;
  const ClusterParameters& p_;
  const GroupCosts& groups_;
  KernelCoster kernels_;
  CostSources& sources_;
};

}  // namespace foretrace
