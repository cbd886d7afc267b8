#include "simulator/backends/graph_view.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "simulator/backends/text_of_sizes.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/workload/layer_pattern.h"
#include "simulator/workload/transformer_graph.h"

namespace foretrace {
namespace {

std::string TypeOf(const GraphOp& op) {
  if (!op.function.empty()) return op.function;
  switch (op.kind) {
    case GraphOpKind::kMatmul:
      return "dense";
    case GraphOpKind::kScores:
    case GraphOpKind::kContext:
    case GraphOpKind::kBatchedMatmul:
      return "batch_matmul";
    case GraphOpKind::kNorm:
      return "layer_norm";
    case GraphOpKind::kLogSoftmax:
      return "softmax";
    default:
      return std::string(Name(op.kind));
  }
}

// Unrolls the repeated block.
class Unroller {
 public:
  Unroller(const OperatorGraph& graph, const Binding& sizes) : graph_(graph), sizes_(sizes) {}

  std::vector<ViewedOp> Run(int64_t layers) {
    OpId first = 0;
    const auto count = static_cast<OpId>(graph_.ops().size());
    while (first < count && !graph_.op(first).in_block) ++first;
    OpId end = first;
    while (end < count && graph_.op(end).in_block) ++end;
    repeats_ = first < end;
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
    ViewedOp made;
    std::string name = prefix + std::string(op.name);
    // Names of files are left as they are.
    if (repeats_) std::ranges::replace(name, ' ', '_');
    const int32_t times = ++names_[name];
    made.name = times == 1 ? name : name + "#" + std::to_string(times);
    made.type = TypeOf(op);
    for (const TensorId tensor : op.inputs) made.inputs.push_back(MakerOf(tensor));
    std::vector<int32_t> shape;
    for (const AxisId axis : graph_.tensor(op.inputs.front()).axes) {
      shape.push_back(static_cast<int32_t>(sizes_.of(axis)));
    }
    made.shape = JoinSizes(shape);
    made.attributes = op.attributes;
    if (graph_.tensor(op.inputs.front()).dtype == DType::kUnknown) return Push(op, std::move(made));
    for (const OperatorCall& call : CallsOf(graph_, sizes_, id, Direction::kForward)) {
      made.calls.push_back(call);
    }
    Push(op, std::move(made));
  }

  void Push(const GraphOp& op, ViewedOp made) {
    for (const TensorId tensor : op.outputs) makers_[tensor] = static_cast<int32_t>(ops_.size());
    ops_.push_back(std::move(made));
  }

  int32_t MakerOf(TensorId tensor) const {
    const auto maker = makers_.find(tensor);
    if (maker != makers_.end()) return maker->second;
    // Another tensor of an operator's result: the same elements as its reader takes them.
    const OpId producer = graph_.tensor(tensor).producer;
    if (producer == kNoOp) return kNoProducer;
    const auto result = makers_.find(graph_.op(producer).outputs.front());
    return result == makers_.end() ? kNoProducer : result->second;
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
  bool repeats_ = false;
  std::vector<ViewedOp> ops_;
  absl::flat_hash_map<TensorId, int32_t> makers_;
  absl::flat_hash_map<std::string, int32_t> names_;
};

}  // namespace

OperatorView ViewOf(std::string name, const OperatorGraph& graph, const Binding& sizes,
                    int64_t layers) {
  return OperatorView(std::move(name), Unroller(graph, sizes).Run(layers));
}

absl::StatusOr<OperatorView> ViewOfModel(const TransformerConfig& config, int32_t micro_batch) {
  FORETRACE_RETURN_IF_ERROR(CheckChainOfWholeLayers(config));
  if (micro_batch < 1)
    return InvalidInput("{}: micro-batch {} must be positive", config.name, micro_batch);
  TransformerConfig c = config;
  c.fused_attention = false;
  const TransformerGraph model = MakeTransformerGraph(c);
  TransformerShares shares;
  shares.micro_batch = micro_batch;
  const Binding sizes = BindTransformer(model, c, shares);
  return ViewOf(c.name, model.graph, sizes, c.layers);
}

}  // namespace foretrace
