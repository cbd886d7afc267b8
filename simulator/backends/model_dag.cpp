#include "simulator/backends/model_dag.h"

#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "simulator/backends/text_of_sizes.h"
#include "simulator/base/error.h"
#include "simulator/workload/transformer_graph.h"

namespace foretrace {
namespace {

std::string TypeOf(const GraphOp& op, bool gated) {
  switch (op.kind) {
    case GraphOpKind::kMatmul:
      return "dense";
    case GraphOpKind::kScores:
    case GraphOpKind::kContext:
      return "batch_matmul";
    case GraphOpKind::kAttention:
      return "attention";
    case GraphOpKind::kNorm:
      return "layer_norm";
    case GraphOpKind::kSoftmax:
    case GraphOpKind::kLogSoftmax:
      return "softmax";
    case GraphOpKind::kDropout:
      return "dropout";
    case GraphOpKind::kAdd:
      return "add";
    case GraphOpKind::kGather:
      return "gather";
    case GraphOpKind::kElementwise:
      return op.outputs.size() > 1 ? "rotary" : gated ? "silu" : "gelu";
    case GraphOpKind::kCount:
      break;
  }
  return "unknown";
}

// Unrolls the repeated block.
class Unroller {
 public:
  Unroller(const OperatorGraph& graph, const Binding& sizes, bool gated)
      : graph_(graph), sizes_(sizes), gated_(gated) {}

  std::vector<DagOp> Run(int64_t layers) {
    OpId first = 0;
    const auto count = static_cast<OpId>(graph_.ops().size());
    while (first < count && !graph_.op(first).in_block) ++first;
    OpId end = first;
    while (end < count && graph_.op(end).in_block) ++end;
    for (OpId op = 0; op < first; ++op) Add(op, "");
    for (int64_t layer = 0; layer < layers; ++layer) {
      for (OpId op = first; op < end; ++op) Add(op, "l" + std::to_string(layer) + ".");
      Feed(first, end);
    }
    for (OpId op = end; op < count; ++op) Add(op, "");
    return std::move(ops_);
  }

 private:
  void Add(OpId id, const std::string& prefix) {
    const GraphOp& op = graph_.op(id);
    DagOp made;
    std::string name = prefix + std::string(op.name);
    for (char& c : name) c = c == ' ' ? '_' : c;
    const int32_t times = ++names_[name];
    made.name = times == 1 ? name : name + "#" + std::to_string(times);
    made.type = TypeOf(op, gated_);
    for (const TensorId tensor : op.inputs) {
      const auto maker = makers_.find(tensor);
      made.inputs.push_back(maker == makers_.end() ? kNoProducer : maker->second);
    }
    std::vector<int32_t> shape;
    for (const AxisId axis : graph_.tensor(op.inputs.front()).axes) {
      shape.push_back(static_cast<int32_t>(sizes_.of(axis)));
    }
    made.shape = JoinSizes(shape);
    for (const OperatorCall& call : CallsOf(graph_, sizes_, id, Direction::kForward)) {
      made.calls.push_back(call);
    }
    for (const TensorId tensor : op.outputs) makers_[tensor] = static_cast<int32_t>(ops_.size());
    ops_.push_back(std::move(made));
  }

  // What leaves the block, read behind it, is what enters the next one.
  void Feed(OpId first, OpId end) {
    TensorId entering = -1, leaving = -1;
    for (TensorId t = 0; static_cast<size_t>(t) < graph_.tensors().size(); ++t) {
      const GraphTensor& tensor = graph_.tensor(t);
      if (tensor.role != TensorRole::kActivation || tensor.producer == kNoOp) continue;
      for (const OpId reader : tensor.consumers) {
        if (tensor.producer < first && reader >= first && reader < end) entering = t;
        if (tensor.producer >= first && tensor.producer < end && reader >= end) leaving = t;
      }
    }
    if (entering >= 0 && leaving >= 0) makers_[entering] = makers_[leaving];
  }

  const OperatorGraph& graph_;
  const Binding& sizes_;
  bool gated_;
  std::vector<DagOp> ops_;
  absl::flat_hash_map<TensorId, int32_t> makers_;
  absl::flat_hash_map<std::string, int32_t> names_;
};

}  // namespace

absl::StatusOr<OperatorDag> DagOfModel(const TransformerConfig& config, int32_t micro_batch) {
  if (config.family == TransformerFamily::kT5) {
    return InvalidInput(
        "{}: models of an encoder and a decoder have no single chain of layers; give a model of "
        "one "
        "stack",
        config.name);
  }
  if (micro_batch < 1)
    return InvalidInput("{}: micro-batch {} must be positive", config.name, micro_batch);
  TransformerConfig c = config;
  c.fused_attention = false;
  const TransformerGraph model = MakeTransformerGraph(c);
  TransformerShares shares;
  shares.micro_batch = micro_batch;
  const Binding sizes = BindTransformer(model, c, shares);
  return OperatorDag(c.name, Unroller(model.graph, sizes, IsGated(c)).Run(c.layers));
}

}  // namespace foretrace
