#pragma once
// Graphs of operators (graph/operator_graph.h) as backends see them.

#include <string>

#include "absl/status/statusor.h"
#include "simulator/backends/operator_view.h"
#include "simulator/graph/operator_graph.h"
#include "simulator/workload/transformer.h"

namespace foretrace {

// The forward pass, its repeated block `layers` times, one after the other. Types are the
// operators' functions, else by kind: dense, batch_matmul, attention, layer_norm, softmax, dropout,
// add, gather. Work is known where the types of tensors are.
OperatorView ViewOf(std::string name, const OperatorGraph& graph, const Binding& sizes,
                    int64_t layers = 1);

// All layers of a model, attention as GEMMs and a softmax. Errors: two stacks of layers, a
// micro-batch below 1.
absl::StatusOr<OperatorView> ViewOfModel(const TransformerConfig& config, int32_t micro_batch);

}  // namespace foretrace
