#pragma once
// A mixture of experts whose experts take their tokens one after another, as models of the
// transformers library before 5.0 have it (models/mixtral/modeling_mixtral.py,
// MixtralSparseMoeBlock.forward, and those after it): for each expert the CPU asks the device which
// tokens it has (torch.where), waits for the answer, and starts kernels over these alone.

#include <algorithm>
#include <cstdint>

#include "simulator/mapping/iteration_model.h"
#include "simulator/mapping/mapped_layer.h"

namespace foretrace {

// Keeps references to both.
class ExpertLoop {
 public:
  ExpertLoop(const MappedLayer& layer, const ParallelMapping& mapping,
             const ClusterParameters& cluster);

  // What each expert runs of an operator, beside what runs once.
  struct Each {
    KernelList forward, backward;
    int64_t experts = 0;
    int64_t forward_further = 0, backward_further = 0;  // KernelStarts
    // Of a pass, what the device waits for the CPU: in seconds, forward, all experts'.
    double waits = 0;
  };
  // Takes out of `forward` and `backward`, the gradients of inputs, what each expert runs; the
  // experts' GEMMs are ExpertKernels'.
  Each Apply(const GraphOp& op, KernelList& forward, KernelList& backward) const;

 private:
  Each Dispatch(const GraphOp& op, KernelList& forward, KernelList& backward) const;
  Each Combine(const GraphOp& op, KernelList& forward, KernelList& backward) const;
  Each Divided(KernelList& forward, KernelList& backward) const;
  int64_t OfToken(int64_t elements) const {
    return std::max<int64_t>(elements / std::max<int64_t>(tokens_, 1), 1);
  }
  // Both tell how many kernels operators start beside their first.
  int64_t FindTokens(KernelList& list) const;
  // The gradient of `columns` elements of each of `rows` rows that were gathered from more, `all`
  // elements.
  int64_t ScatterRows(int64_t columns, int64_t all, DType dtype, KernelList& list) const;

  const MappedLayer& l_;
  const ParallelMapping& m_;
  const ClusterParameters& p_;
  int64_t experts_, tokens_, choices_, rows_;  // `rows_`: of an expert
};

// Whether this software runs a layer's experts so, of which there are some.
bool LoopsOverExperts(const MappedLayer& layer, const ClusterParameters& cluster);

}  // namespace foretrace
