#include "simulator/graph/operator_graph.h"

#include <algorithm>
#include <array>

#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"
#include "simulator/cost/operator/kernel_work.h"
#include "simulator/graph/state_scan.h"

namespace foretrace {

std::string_view Name(TensorRole role) {
  static constexpr std::array<std::string_view, 6> kNames = {
      "activation", "weight", "gradient", "optimizer_state", "kv_cache", "index"};
  return EnumName(kNames, role);
}

std::string_view Name(GraphOpKind kind) {
  static constexpr std::array<std::string_view, 20> kNames = {
      "matmul",      "scores", "context", "attention",   "norm",           "softmax",     "dropout",
      "elementwise", "add",    "gather",  "log_softmax", "batched_matmul", "convolution", "pool",
      "reduction",   "concat", "copy",    "state_scan",  "opaque",         "exchange"};
  return EnumName(kNames, kind);
}

AxisId OperatorGraph::AddAxis(std::string_view name, int64_t size) {
  axes_.push_back({name, size});
  return static_cast<AxisId>(axes_.size()) - 1;
}

TensorId OperatorGraph::AddTensor(GraphTensor tensor) {
  tensors_.push_back(std::move(tensor));
  return static_cast<TensorId>(tensors_.size()) - 1;
}

OpId OperatorGraph::AddOp(GraphOp op) {
  const auto id = static_cast<OpId>(ops_.size());
  for (const TensorId t : op.inputs) tensors_[static_cast<size_t>(t)].consumers.push_back(id);
  for (const TensorId t : op.outputs) tensors_[static_cast<size_t>(t)].producer = id;
  ops_.push_back(std::move(op));
  return id;
}

Binding OperatorGraph::Declared() const {
  Binding sizes;
  for (const Axis& axis : axes_) sizes.size.push_back(axis.size);
  return sizes;
}

absl::Status OperatorGraph::Validate() const {
  for (size_t i = 0; i < ops_.size(); ++i) {
    const GraphOp& op = ops_[i];
    if (op.inputs.empty() || op.outputs.empty()) {
      return InvalidInput("graph: operator '{}' has no inputs or no outputs", op.name);
    }
    for (const TensorId t : op.inputs) {
      if (t < 0 || static_cast<size_t>(t) >= tensors_.size() ||
          tensor(t).producer >= static_cast<OpId>(i)) {
        return InvalidInput("graph: operator '{}' reads what no earlier one wrote", op.name);
      }
    }
    const bool weighted = op.kind == GraphOpKind::kMatmul || op.kind == GraphOpKind::kConvolution;
    if (weighted && (op.inputs.size() < 2 || tensor(op.inputs[1]).role != TensorRole::kWeight)) {
      return InvalidInput("graph: {} '{}' has no weight", Name(op.kind), op.name);
    }
  }
  return absl::OkStatus();
}

int64_t Elements(const OperatorGraph& graph, const Binding& sizes, TensorId id) {
  int64_t product = 1;
  for (const AxisId axis : graph.tensor(id).axes) {
    product = SaturatingProduct({product, sizes.of(axis)});
  }
  return product;
}

Bytes SizeOf(const OperatorGraph& graph, const Binding& sizes, TensorId id) {
  return Bytes(
      SaturatingProduct({Elements(graph, sizes, id), ElementSize(graph.tensor(id).dtype)}));
}

absl::InlinedVector<TensorId, 4> KeptBy(const GraphOp& op) {
  switch (op.kind) {
    case GraphOpKind::kMatmul:
    case GraphOpKind::kNorm:
    case GraphOpKind::kConvolution:
      return {op.inputs[0]};
    case GraphOpKind::kScores:
    case GraphOpKind::kContext:
    case GraphOpKind::kBatchedMatmul:
      return {op.inputs[0], op.inputs[1]};
    case GraphOpKind::kAttention: {
      absl::InlinedVector<TensorId, 4> kept(op.inputs.begin(), op.inputs.end());
      kept.push_back(op.outputs[0]);
      return kept;
    }
    case GraphOpKind::kStateScan: {
      absl::InlinedVector<TensorId, 4> kept(op.inputs.begin(), op.inputs.begin() + kScanTensors);
      kept.insert(kept.end(), op.outputs.begin() + 1, op.outputs.end());
      return kept;
    }
    case GraphOpKind::kLogSoftmax:
      if (op.kept > 0) return {op.inputs[0]};
      return {op.outputs[0]};
    case GraphOpKind::kSoftmax:
      return {op.outputs[0]};
    case GraphOpKind::kDropout:
      return {op.outputs[1]};
    case GraphOpKind::kElementwise:
      return {op.inputs.begin(), op.inputs.begin() + op.kept};
    case GraphOpKind::kAdd:
      return {op.outputs.begin() + 1, op.outputs.end()};
    default:
      return {};
  }
}

}  // namespace foretrace
