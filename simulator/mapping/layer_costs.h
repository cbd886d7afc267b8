#pragma once
// What the operators of a mapped transformer take on one device, one micro-batch.

#include "absl/container/inlined_vector.h"
#include "simulator/mapping/group_costs.h"
#include "simulator/mapping/mapped_layer.h"
#include "simulator/mapping/ring_attention.h"
#include "simulator/mapping/shard_copies.h"

namespace foretrace {

// Kernels that the CPU starts; of them those that an operator starts beside its first one, for
// which it hardly takes more than to issue them.
struct KernelStarts {
  int64_t all = 0, further = 0;
  KernelStarts& operator+=(const KernelStarts& others) {
    all += others.all;
    further += others.further;
    return *this;
  }
};

// A pass over some operators, in seconds.
struct PassCost {
  double forward = 0, backward = 0;
  double weight = 0;                    // of backward: the weights' gradients
  double attention_core = 0;            // of forward: what selective recomputation repeats
  double alternate = 0, attention = 0;  // of forward: every second GEMM, and fused attention
  double again = 0;                     // of forward: what PartsAgain has
  KernelStarts again_kernels;
  // Of GEMMs that lead into the tensor-parallel region: their backward pass's two parts.
  struct Column {
    OpId op = kNoOp;
    double input = 0, weight = 0;
    PassKernels input_kernels, weight_kernels;
  };
  absl::InlinedVector<Column, 2> columns;
  std::vector<bool> parts_again;  // by operator of the graph: PartsAgain's, of a layer alone
  RingCost ring;                  // of attention over a ring
  // What GEMMs take longer beside gatherings and scatterings (partwise_gemms.h), of forward.
  double beside = 0;
  KernelStarts forward_kernels, backward_kernels;
  PassKernels of_forward, of_backward;  // the kernels, as long as they take by themselves
};

// Those of a layer's forward kernels that its backward pass runs again.
KernelStarts RepeatedKernels(const ParallelMapping& mapping, const PassCost& layer);

// Of a layer, and of what comes before and after the layers.
struct OpCosts {
  PassCost before, layer, after;
  ShardCopies layer_copies, first_copies, last_copies;  // MappedLayer::RootWeights
};

OpCosts CostOps(const MappedLayer& layer, const ParallelMapping& mapping,
                const ClusterParameters& cluster, const GroupCosts& groups, CostSources& sources);

}  // namespace foretrace
