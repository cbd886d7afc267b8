#pragma once
// Iterations of parallel mappings of GPTs as the dataflow model has them.

#include "absl/status/statusor.h"
#include "simulator/mapping/iteration_model.h"

namespace foretrace {

// One layer's operator graph over nodes of the cluster: neighbours by tensor parallelism within a
// node, then replicas, then stages (Megatron-LM's order of ranks); kernels and all-reduces within a
// node as the cluster's measurements have them. Exchanges that mapping words hide behind GEMMs
// (tp-chunked) are behind the kernel that makes what is exchanged. The embedding is no part of it.
// Errors: infeasible: what a dataflow mapping does not say.
absl::StatusOr<SimTime> DataflowIteration(const TransformerConfig& model,
                                          const ParallelMapping& mapping,
                                          const ClusterParameters& cluster);

}  // namespace foretrace
