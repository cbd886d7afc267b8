#pragma once
// What it takes to cast what the GEMMs of layers take to 8 or 4 bits, by where the scales come from
// and by which order of an operand a GEMM wants.

#include <utility>

#include "simulator/mapping/kernel_coster.h"
#include "simulator/mapping/partwise_gemms.h"

namespace foretrace {

// Whether an operator is a GEMM that a mapping in 8 or 4 bits runs so: those of layers but routers'
// (Megatron Core, transformer/moe/router.py: torch.nn.functional.linear).
bool TakesCasts(const GraphOp& op);

// In seconds. Forward a GEMM's input and, where scales come from the operands themselves, its
// weights; backward its output's gradient and what is cast again.
struct CastTimes {
  double forward = 0, backward = 0;
};

class OperandCasts {
 public:
  OperandCasts(const MappedLayer& layer, const ParallelMapping& mapping,
               const ClusterParameters& cluster, CostSources& sources)
      : l_(layer), m_(mapping), p_(cluster), kernels_(cluster), sources_(sources) {}

  // Of an operator that TakesCasts. `trained`: its weights are.
  CastTimes Of(const GraphOp& op, bool trained) const;

 private:
  // Elements that this rank has, and those once the tensor-parallel ranks' are gathered.
  struct Operand {
    int64_t own = 0, whole = 0;
    DType dtype = DType::kBFloat16;
    bool cast_before = false;  // it was gathered
  };

  std::pair<RegionEdge, RegionEdge> GatheredAt(const GraphOp& op) const;
  Operand OperandOf(TensorId tensor, RegionEdge gathered) const;
  CastTimes InOneKernel(const GraphOp& op, bool trained) const;
  CastTimes ByTensor(const GraphOp& op, bool trained) const;
  CastTimes ByRow(const GraphOp& op, bool trained) const;
  // Of n elements in `orders` orders; the largest magnitude of n; a cast tensor in its other order.
  double Cast(int64_t n, int64_t orders, DType dtype) const;
  double Largest(int64_t n, DType dtype) const;
  double Transpose(int64_t n) const;
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
