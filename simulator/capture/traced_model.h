#pragma once
// A model's operator graph, read off a captured training iteration.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/trace/rank_trace.h"
#include "simulator/workload/workload.h"

namespace foretrace {

struct TracedModelOptions {
  std::optional<int32_t> rank;       // default: the first
  std::optional<int64_t> iteration;  // default: the first; without marks, counted from 0
  // What the rank trained on in that iteration; quantities of the graph are per sample.
  int64_t samples = 1;
};

struct TracedModel {
  Workload workload;
  int64_t backward_calls = 0;   // autograd nodes that did device work
  int64_t unmatched_calls = 0;  // of these, those whose forward operator is not in the graph
  int64_t parameter_tensors = 0;
  std::vector<std::string> notes;
};

// Operators are the innermost framework calls of the forward pass whose work is known from their
// shapes (trace_operator.h). Edges follow tensors by their storages, through views and through
// calls without known work; where the trace does not identify tensors, the operators form a line.
// An autograd node belongs to the last forward call of its name that has none yet and whose result
// has as many elements as the node's gradient; work of nodes without one is added to the backward
// call before. Parameters are what gradients are accumulated for, or the rows of a lookup whose
// update is fused; they belong to the operator whose backward pass made the gradient. Where no such
// gradient is recorded they are the weights that shapes imply (of a step without GEMMs of two
// activations but batched ones). Forward calls
// that no backward pass depends on (optimizers, metrics) are left out; activations kept are
// results. Errors: no such rank or iteration; no call with a known operator (recorded without
// shapes).
absl::StatusOr<TracedModel> ModelOfTrace(const TraceStore& store,
                                         const TracedModelOptions& options);

// As a workload file.
std::string WorkloadYaml(const TracedModel& model);

}  // namespace foretrace
