#pragma once
// The forward pass of a model (graph/operator_graph.h) as backends see it.

#include "absl/status/statusor.h"
#include "simulator/backends/operator_dag.h"
#include "simulator/workload/transformer.h"

namespace foretrace {

// All layers, attention as products and a softmax. Types are those of network files: dense,
// batch_matmul, layer_norm, softmax, dropout, add, gelu or silu, rotary, gather. Errors: two stacks
// of layers, a micro-batch below 1.
absl::StatusOr<OperatorDag> DagOfModel(const TransformerConfig& config, int32_t micro_batch);

}  // namespace foretrace
