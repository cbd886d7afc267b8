#include "simulator/workload/transformer.h"

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/cost/operator/kernel_work.h"
#include "simulator/workload/layer_pattern.h"
#include "simulator/workload/transformer_graph.h"

namespace foretrace {
namespace {

// T5's relative position biases: 32 buckets per head, in the first layer of each stack.
constexpr int64_t kRelativeBuckets = 32;

OperatorKind KindOf(const OperatorGraph& graph, const GraphOp& op) {
  switch (op.kind) {
    case GraphOpKind::kMatmul:
      return op.name == "router" ? OperatorKind::kRouter : OperatorKind::kLinear;
    case GraphOpKind::kScores:
    case GraphOpKind::kContext:
    case GraphOpKind::kAttention:
      return OperatorKind::kAttention;
    case GraphOpKind::kNorm:
      return OperatorKind::kNorm;
    case GraphOpKind::kGather:
      return graph.tensor(op.inputs[0]).role == TensorRole::kWeight ? OperatorKind::kEmbedding
                                                                    : OperatorKind::kElementwise;
    case GraphOpKind::kLogSoftmax:
      return OperatorKind::kLoss;
    default:
      return op.attention_core ? OperatorKind::kAttention : OperatorKind::kElementwise;
  }
}

// One of a graph's operators for one sample on one device, without its place in the model.
class OperatorReader {
 public:
  OperatorReader(const TransformerGraph& model, const TransformerConfig& config)
      : config_(config),
        graph_(model.graph),
        axes_(model.axes),
        sizes_(BindTransformer(model, config, {})),
        division_(DivisionOf(model, config, Divided())),
        keeper_(graph_.tensors().size(), kNoOp) {
    ReadSums();
    for (OpId id = 0; id < Count(); ++id) {
      for (const TensorId t : KeptBy(graph_.op(id))) {
        OpId& keeper = keeper_[static_cast<size_t>(t)];
        if (keeper == kNoOp) keeper = id;
      }
    }
  }

  OpId Count() const { return static_cast<OpId>(graph_.ops().size()); }
  Bytes SizeOfTensor(TensorId t) const { return SizeOf(graph_, sizes_, t); }

  Operator Read(OpId id) const {
    const GraphOp& in = graph_.op(id);
    Operator op;
    op.name = in.name;
    op.kind = KindOf(graph_, in);
    op.function = in.function;
    const CallList calls = CallsOf(graph_, sizes_, id, Direction::kForward);
    op.calls.assign(calls.begin(), calls.end());
    op.forward_flop = GemmFlopOf(graph_, sizes_, id);
    op.backward_flop = Flop(2 * op.forward_flop.count());
    op.forward_bytes = Traffic(id, Direction::kForward);
    op.backward_bytes = Traffic(id, Direction::kBackward);
    for (const TensorId t : in.outputs)
      op.output_bytes = std::max(op.output_bytes, SizeOfTensor(t));
    ReadWeights(id, op);
    ReadStash(id, op);
    ReadDivision(in, op);
    op.reduces_output = sums_output_[static_cast<size_t>(id)];
    op.reduces_gradient = sums_gradient_[static_cast<size_t>(id)];
    return op;
  }

 private:
  bool IsFirstReader(OpId id, TensorId t) const {
    return graph_.tensor(t).role == TensorRole::kWeight && graph_.tensor(t).consumers.front() == id;
  }

  void ReadWeights(OpId id, Operator& op) const {
    for (const TensorId t : graph_.op(id).inputs) {
      if (!IsFirstReader(id, t)) continue;
      op.parameters += Elements(graph_, sizes_, t);
      op.expert_parallel |= Has(t, axes_.experts);
    }
    op.active_parameters = op.parameters;
    if (!op.expert_parallel) return;
    op.kind = OperatorKind::kExperts;
    op.active_parameters = op.parameters / config_.experts * config_.top_k;
  }

  // Activations alone: weights are read once for all samples.
  Bytes Traffic(OpId id, Direction pass) const {
    const GraphOp& op = graph_.op(id);
    // Gradients of a table are cleared and accumulated once for all samples too.
    constexpr TableGradient kApart = {.added = false};
    Bytes all, weights;
    for (const OperatorCall& call : CallsOf(graph_, sizes_, id, pass, kApart)) {
      all += TotalWork(call).bytes;
    }
    for (const TensorId t : op.inputs) {
      if (graph_.tensor(t).role != TensorRole::kWeight) continue;
      if (op.kind == GraphOpKind::kGather) {
        if (pass == Direction::kBackward) weights += SizeOfTensor(t);
      } else {
        weights += SizeOfTensor(t) * (pass == Direction::kBackward ? 2 : 1);
      }
    }
    return all > weights ? all - weights : Bytes();
  }

  // Each tensor with the first operator that keeps it.
  void ReadStash(OpId id, Operator& op) const {
    for (TensorId t = 0; static_cast<size_t>(t) < keeper_.size(); ++t) {
      const GraphTensor& tensor = graph_.tensor(t);
      if (keeper_[static_cast<size_t>(t)] != id || tensor.role != TensorRole::kActivation) continue;
      const Bytes bytes = SizeOfTensor(t);
      (IsDivided(t) ? op.stash_tensor : op.stash_sequence) += bytes;
      const bool core =
          tensor.producer != kNoOp && graph_.op(tensor.producer).attention_core && IsDivided(t);
      if (core) op.stash_selective += bytes;
    }
  }

  // By the axes that tensor parallelism divides, as BindTransformer has them.
  void ReadDivision(const GraphOp& in, Operator& op) const {
    int64_t ways = 0;
    bool any = false;
    const auto look = [&](TensorId t) {
      for (const AxisId axis : graph_.tensor(t).axes) {
        if (!Divides(axis)) continue;
        any = true;
        // Vocabularies are padded, and so of any width.
        if (axis != axes_.vocabulary) ways = std::gcd(ways, Ways(axis));
      }
    };
    for (const TensorId t : in.inputs) look(t);
    for (const TensorId t : in.outputs) look(t);
    op.tensor_ways = any ? ways : 1;
  }

  // Of any width.
  static TransformerShares Divided() {
    TransformerShares shares;
    shares.tensor = 2;
    return shares;
  }
  bool Divides(AxisId axis) const { return division_.Divides(axis, ShardGroup::kTensor); }

  // Whose results, and whose inputs' gradients, the divided graph sums; those of single numbers a
  // row, and of what one of several inputs lacks, are left out.
  void ReadSums() {
    sums_output_.resize(graph_.ops().size());
    sums_gradient_.resize(graph_.ops().size());
    const ShardedGraph sharded = ShardGraph(graph_, division_);
    for (const PlacedExchange& e : sharded.exchanges) {
      const GroupExchange& exchange = sharded.graph.op(e.op).exchange;
      const bool gemm = graph_.op(e.of).kind == GraphOpKind::kMatmul;
      if (e.after) sums_output_[static_cast<size_t>(e.of)] = true;
      if (gemm && exchange.backward == CollectiveOp::kAllReduce) {
        sums_gradient_[static_cast<size_t>(e.of)] = true;
      }
    }
  }
  // Both halves of a gated layer are divided alike, and queries as keys and values are.
  int64_t Ways(AxisId axis) const {
    if (axis == axes_.heads) return std::gcd(sizes_.of(axes_.heads), sizes_.of(axes_.kv_heads));
    if (axis == axes_.up) return sizes_.of(axes_.ffn);
    return sizes_.of(axis == axes_.shared_up ? axes_.shared : axis);
  }
  bool Has(TensorId t, AxisId axis) const {
    return std::ranges::find(graph_.tensor(t).axes, axis) != graph_.tensor(t).axes.end();
  }
  bool IsDivided(TensorId t) const {
    return std::ranges::any_of(graph_.tensor(t).axes, [&](AxisId a) { return Divides(a); });
  }

  const TransformerConfig& config_;
  const OperatorGraph& graph_;
  const TransformerAxes& axes_;
  Binding sizes_;
  Division division_;
  std::vector<bool> sums_output_, sums_gradient_;  // by operator
  std::vector<OpId> keeper_;  // by tensor: the first operator whose backward pass reads it
};

// A graph whose repeated block is written out, and its operators.
struct Stack {
  TransformerConfig config;
  TransformerGraph model;
  OperatorReader reader;
  std::vector<Operator> operators;
  OpId begin = 0, end = 0;  // of the block
  TensorId enters, leaves;  // the block

  Stack(const TransformerConfig& c, TransformerStack kind)
      : config(c), model(MakeTransformerGraph(config, kind)), reader(model, config) {
    const OperatorGraph& graph = model.graph;
    while (!graph.op(begin).in_block) ++begin;
    for (end = begin; graph.op(end).in_block;) ++end;
    enters = graph.op(begin).inputs[0];
    leaves = graph.op(end - 1).outputs[0];
    for (OpId id = 0; id < reader.Count(); ++id) operators.push_back(reader.Read(id));
  }
  Stack(const Stack&) = delete;
};

class WorkloadBuilder {
 public:
  explicit WorkloadBuilder(const TransformerConfig& config) : c_(config) {
    w_.name = c_.name;
    w_.dtype = c_.dtype;
    w_.sequence_length = c_.sequence;
    w_.hidden = c_.hidden;
  }

  Workload Build() {
    if (c_.family == TransformerFamily::kT5) {
      std::deque<Stack> encoder, decoder;
      encoder.emplace_back(c_, TransformerStack::kEncoder);
      AppendStack(encoder, c_.layers, "encoder ");
      const int32_t memory = stream_;
      decoder.emplace_back(c_, TransformerStack::kDecoder);
      memory_ = {decoder.front().model.memory, memory};
      AppendStack(decoder, c_.decoder_layers, "decoder ");
    } else {
      std::deque<Stack> kinds;
      for (size_t kind = 0; kind < LayerKinds(c_); ++kind) {
        kinds.emplace_back(WithLayerKind(c_, kind), TransformerStack::kOnly);
      }
      AppendStack(kinds, c_.layers, "");
    }
    for (const auto& [ends, bytes] : edges_) w_.edges.push_back({ends.first, ends.second, bytes});
    return std::move(w_);
  }

 private:
  // `kinds`: of the stack's layers (LayerKindOf).
  void AppendStack(const std::deque<Stack>& kinds, int64_t layers, const std::string& prefix) {
    const Stack& own = kinds.front();
    source_.clear();
    for (OpId id = 0; id < own.begin; ++id) Append(own, id, prefix + own.model.graph.op(id).name);
    stream_ = source_.at(own.enters);
    for (int64_t i = 0; i < layers; ++i) {
      const Stack& stack = kinds.size() > 1 ? kinds[LayerKindOf(c_, i)] : own;
      const int32_t block = w_.blocks++;
      bool biased = false;  // relative positions are of the first attention alone
      source_ = {{stack.enters, stream_}};
      if (memory_.first >= 0) source_.insert(memory_);
      for (OpId id = stack.begin; id < stack.end; ++id) {
        Operator& op =
            Append(stack, id, fmt::format("block {} {}", block, stack.model.graph.op(id).name));
        op.block = block;
        const bool scores = op.kind == OperatorKind::kAttention && op.forward_flop > Flop();
        if (c_.family == TransformerFamily::kT5 && i == 0 && scores && !biased) {
          op.parameters = op.active_parameters = kRelativeBuckets * c_.heads;
          biased = true;
        }
      }
      stream_ = source_.at(stack.leaves);
    }
    source_ = {{own.leaves, stream_}};
    for (OpId id = own.end; id < own.reader.Count(); ++id) {
      Append(own, id, prefix + own.model.graph.op(id).name);
    }
    stream_ = static_cast<int32_t>(w_.operators.size()) - 1;
  }

  Operator& Append(const Stack& stack, OpId id, std::string name) {
    const auto index = static_cast<int32_t>(w_.operators.size());
    const GraphOp& in = stack.model.graph.op(id);
    for (const TensorId t : in.inputs) {
      const auto from = source_.find(t);
      if (from != source_.end()) edges_[{from->second, index}] += stack.reader.SizeOfTensor(t);
    }
    for (const TensorId t : in.outputs) source_[t] = index;
    Operator op = stack.operators[static_cast<size_t>(id)];
    op.name = std::move(name);
    // Tables that another operator has.
    const bool shared =
        (in.name == "output layer" && IsTied(c_)) || (in.name == "embedding" && memory_.first >= 0);
    if (shared) op.parameters = op.active_parameters = 0;
    w_.operators.push_back(std::move(op));
    return w_.operators.back();
  }

  const TransformerConfig& c_;
  Workload w_;
  std::map<std::pair<int32_t, int32_t>, Bytes> edges_;
  std::map<TensorId, int32_t> source_;             // of the present graph: who made a tensor
  std::pair<TensorId, int32_t> memory_ = {-1, 0};  // of a decoder
  int32_t stream_ = 0;                             // who made what the next layer reads
};

}  // namespace

absl::StatusOr<Workload> BuildTransformer(const TransformerConfig& config) {
  if (config.head_size == 0 && config.heads > 0 && config.hidden % config.heads != 0) {
    return InvalidInput("workload '{}': hidden {} is not a multiple of heads {}; give head_size",
                        config.name, config.hidden, config.heads);
  }
  const TransformerConfig c = WithDefaults(config);
  FORETRACE_RETURN_IF_ERROR(CheckTransformer(c));
  Workload workload = WorkloadBuilder(c).Build();
  FORETRACE_RETURN_IF_ERROR(workload.Validate());
  return workload;
}

}  // namespace foretrace
