#include "simulator/workload/transformer_graph.h"

#include <algorithm>
#include <utility>

#include "simulator/workload/attention_graph.h"
#include "simulator/workload/layer_pattern.h"
#include "simulator/workload/mixer_graph.h"
#include "simulator/workload/transformer_parts.h"

namespace foretrace {
namespace {

class GraphBuilder : TransformerParts {
 public:
  // `empty`: to be built.
  GraphBuilder(const TransformerConfig& config, TransformerStack stack, TransformerGraph& empty)
      : TransformerParts(config, empty), stack_(stack) {
    TransformerAxes& a = out_.axes;
    a.batch = Axis("batch");
    a.queries = Axis("queries");
    a.keys = Axis("keys");
    a.stream = Axis("stream");
    a.routed = Axis("routed");
    a.stream_routed = Axis("stream_routed");
    a.heads = Axis("heads", c_.heads);
    a.kv_heads = Axis("kv_heads", c_.kv_heads);
    a.ffn = Axis("ffn", c_.ffn);
    a.up = gated() ? Axis("up", 2 * c_.ffn) : a.ffn;
    a.shared = Axis("shared", c_.shared_ffn);
    a.shared_up = gated() ? Axis("shared_up", 2 * c_.shared_ffn) : a.shared;
    a.vocabulary = Axis("vocabulary", c_.vocabulary);
    a.experts = Axis("experts", c_.experts);
    a.state_heads = Axis("state heads", c_.state_heads);
    a.state_groups = Axis("state groups", c_.state_groups);
    hidden_ = Axis("hidden", c_.hidden);
    of_expert_ = c_.expert_latent > 0 ? Axis("expert latent", c_.expert_latent) : hidden_;
    depth_ = Axis("depth", c_.head_size);
    value_depth_ = c_.latent > 0 ? Axis("value depth", c_.value_size) : depth_;
    choices_ = Axis("router", c_.experts);
    positions_ = Axis("positions", c_.positions);
  }

  void Build() {
    TensorId x = Embedding();
    in_block_ = true;
    x = Layer(x);
    in_block_ = false;
    Head(x);
  }

 private:
  TensorId Layer(TensorId entered) {
    switch (PartOf(c_)) {
      case LayerPart::kMixer:
        return Residual("mixer residual", AddMixer(c_, hidden_, Norm("norm 1", entered), out_),
                        entered);
      case LayerPart::kDelta:
        return Residual("mixer residual", AddDeltaMixer(c_, hidden_, Norm("norm 1", entered), out_),
                        entered);
      case LayerPart::kParallel:
        return Parallel(entered);
      case LayerPart::kAttention:
        return Attention(entered);
      case LayerPart::kFeedForward:
        return FeedForward(entered, entered);
      case LayerPart::kExperts:
        return Experts(entered);
      default:
        break;
    }
    TensorId x = Attention(entered);
    if (stack_ == TransformerStack::kDecoder) x = CrossAttention(x);
    return c_.experts > 0 ? Experts(x) : FeedForward(entered, x);
  }

  TensorId Embedding() {
    const TransformerAxes& a = out_.axes;
    const TensorId table = Weight("embedding", {a.vocabulary, hidden_});
    const TensorId words =
        Add(Op("embedding", GraphOpKind::kGather, {table, Indices("tokens", {a.stream})},
               {Tensor("words", {a.stream, hidden_})}));
    const bool norm = c_.embedding_norm || bert();
    if (!LearnsPositions(c_)) return norm ? Norm("embedding norm", words) : words;
    Ids inputs = {words, Weight("positions", {positions_, hidden_})};
    if (bert()) inputs.push_back(Weight("segments", {Axis("segments", 2), hidden_}));
    Ids outputs = {Tensor("embedded", {a.stream, hidden_})};
    if (drops()) outputs.push_back(Mask({a.stream, hidden_}));
    const TensorId x = Add(Op("position embedding", GraphOpKind::kAdd, inputs, outputs));
    return norm ? Norm("embedding norm", x) : x;
  }

  TensorId Attention(TensorId x) {
    normalised_ = Norm("norm 1", x);
    const bool causal = !bert() && stack_ != TransformerStack::kEncoder;
    const TensorId branch =
        AddAttention(c_, {hidden_, depth_, value_depth_}, causal, normalised_, out_);
    return Residual("attention residual", After("attention post norm", branch), x);
  }

  TensorId Parallel(TensorId x) {
    const TensorId n = Norm("norm 1", x);
    const TensorId attention = AddAttention(c_, {hidden_, depth_, value_depth_}, true, n, out_);
    const TensorId mixed = AddMixer(c_, hidden_, n, out_);
    const TensorId sum = Add(Op("branch sum", GraphOpKind::kAdd, {attention, mixed},
                                {Tensor("branches", {out_.axes.stream, hidden_})}));
    return Residual("mixer residual", sum, x);
  }

  TensorId CrossAttention(TensorId x) {
    const TensorId branch = AddCrossAttention(c_, {hidden_, depth_, value_depth_}, x, out_);
    return Residual("cross attention residual", After("attention post norm", branch), x);
  }

  std::string Gate() const { return gated() ? "silu" : "gelu"; }

  TensorId Activation(TensorId up, AxisId rows) {
    GraphOp op = Op("activation", GraphOpKind::kElementwise, {up},
                    {Tensor("activated", Rows(rows, out_.axes.ffn))});
    op.kept = 1;
    op.flop_per_element = 8;
    op.function = Gate();
    return Add(std::move(op));
  }
  // Tokens of a device outside of the stream are batch x queries.
  Axes Rows(AxisId rows, AxisId columns) const {
    if (rows == out_.axes.queries) return {out_.axes.batch, rows, columns};
    return {rows, columns};
  }

  // The first GEMM of a feed-forward layer, with the gate's where it is gated.
  GraphOp Up(std::string_view name, Ids inputs, Ids outputs) const {
    GraphOp op = Op(name, GraphOpKind::kMatmul, std::move(inputs), std::move(outputs));
    op.parts = gated() ? 2 : 1;
    return op;
  }

  // Added to x; beside attention it reads what the layer was given.
  TensorId FeedForward(TensorId entered, TensorId x) {
    const TransformerAxes& a = out_.axes;
    const TensorId n =
        c_.parallel_norms == 1 ? normalised_ : Norm("norm 2", c_.parallel_norms == 2 ? entered : x);
    Ids inputs = {n, Weight("up", {hidden_, a.up})};
    if (biased()) inputs.push_back(Weight("up bias", {a.up}));
    const TensorId up = Add(Up("ffn up", inputs, {Tensor("up", Rows(a.queries, a.up))}));
    inputs = {Activation(up, a.queries), Weight("down", {a.ffn, hidden_})};
    if (biased()) inputs.push_back(Weight("down bias", {hidden_}));
    const TensorId down =
        Add(Op("ffn down", GraphOpKind::kMatmul, inputs, {Tensor("down", {a.stream, hidden_})}));
    return Residual("ffn residual", After("ffn post norm", down), x);
  }

  // Each token is routed to a few experts; tokens are gathered by expert, and back.
  TensorId Experts(TensorId x) {
    const TransformerAxes& a = out_.axes;
    const TensorId n = Norm("norm 2", x);
    const TensorId choices =
        Add(Op("router", GraphOpKind::kMatmul, {n, Weight("router", {hidden_, choices_})},
               {Tensor("choices", {a.stream, choices_})}));
    out_.routed = Add(Op("router softmax", GraphOpKind::kSoftmax, {choices},
                         {Tensor("weights", {a.stream, choices_})}));
    const Axes routed = {a.stream_routed, of_expert_};
    const TensorId sent = Add(Op("dispatch", GraphOpKind::kGather,
                                 {ToLatent(n), Indices("routes", {a.stream_routed})},
                                 {Tensor("dispatched", routed)}));
    Ids inputs = {sent, Weight("up", {a.experts, of_expert_, a.up})};
    if (biased()) inputs.push_back(Weight("up bias", {a.experts, a.up}));
    const TensorId up = Add(Up("ffn up", inputs, {Tensor("up", {a.routed, a.up})}));
    inputs = {Activation(up, a.routed), Weight("down", {a.experts, a.ffn, of_expert_})};
    if (biased()) inputs.push_back(Weight("down bias", {a.experts, of_expert_}));
    const TensorId down =
        Add(Op("ffn down", GraphOpKind::kMatmul, inputs, {Tensor("down", routed)}));
    GraphOp combine = Op("combine", GraphOpKind::kElementwise, {down},
                         {Tensor("combined", {a.stream, of_expert_})});
    combine.kept = c_.weighs_activations ? 0 : 1;  // the routers' gradient
    combine.function = "multiply";
    TensorId result = FromLatent(Add(std::move(combine)));
    if (c_.shared_ffn > 0) {
      result = Add(Op("expert sum", GraphOpKind::kAdd, {Shared(n), result},
                      {Tensor("expert sum", {a.stream, hidden_})}));
    }
    return Residual("ffn residual", After("ffn post norm", result), x);
  }

  // Every tensor-parallel rank has these weights whole, for its own tokens (Megatron Core,
  // transformer/moe/moe_layer.py: fc1_latent_proj, fc2_latent_proj of parallel_mode duplicated).
  TensorId ToLatent(TensorId n) {
    if (of_expert_ == hidden_) return n;
    return Add(Op("latent in", GraphOpKind::kMatmul,
                  {n, Weight("latent in", {hidden_, of_expert_})},
                  {Tensor("latent", {out_.axes.stream, of_expert_})}));
  }
  TensorId FromLatent(TensorId combined) {
    if (of_expert_ == hidden_) return combined;
    return Add(Op("latent out", GraphOpKind::kMatmul,
                  {combined, Weight("latent out", {of_expert_, hidden_})},
                  {Tensor("latent out", {out_.axes.stream, hidden_})}));
  }

  // Shared experts, to which every token goes, as one feed-forward layer.
  TensorId Shared(TensorId n) {
    const TransformerAxes& a = out_.axes;
    const TensorId up = Add(Up("shared up", {n, Weight("shared up", {hidden_, a.shared_up})},
                               {Tensor("shared up", Rows(a.queries, a.shared_up))}));
    GraphOp op = Op("shared activation", GraphOpKind::kElementwise, {up},
                    {Tensor("shared activated", Rows(a.queries, a.shared))});
    op.kept = 1;
    op.flop_per_element = 8;
    op.function = Gate();
    const TensorId down = Add(Op("shared down", GraphOpKind::kMatmul,
                                 {Add(std::move(op)), Weight("shared down", {a.shared, hidden_})},
                                 {Tensor("shared down", {a.stream, hidden_})}));
    if (!c_.shared_gate) return down;
    const AxisId one = Axis("shared gate", 1);
    const TensorId gate =
        Add(Op("shared gate", GraphOpKind::kMatmul, {n, Weight("shared gate", {hidden_, one})},
               {Tensor("shared gate", {a.stream, one})}));
    GraphOp weigh = Op("shared weighing", GraphOpKind::kElementwise, {down, gate},
                       {Tensor("weighed", {a.stream, hidden_})});
    weigh.kept = 2;
    weigh.function = "multiply";
    return Add(std::move(weigh));
  }

  // BERT's GEMM of each sample's first token.
  void Pool(TensorId x) {
    const TensorId first = Tensor("first token", {out_.axes.batch, hidden_});
    GraphOp slice = Op("first token", GraphOpKind::kCopy, {x}, {first});
    slice.function = "reshape";
    Add(std::move(slice));
    const AxisId to = Axis("pooled", c_.hidden);
    Ids inputs = {first, Weight("pooler", {hidden_, to})};
    if (biased()) inputs.push_back(Weight("pooler bias", {to}));
    Add(Op("pooler", GraphOpKind::kMatmul, inputs, {Tensor("pooled", {out_.axes.batch, to})}));
  }

  void Head(TensorId x) {
    const TransformerAxes& a = out_.axes;
    if (!bert()) x = Norm("final norm", x);
    if (stack_ == TransformerStack::kEncoder) return;
    if (bert()) Pool(x);
    const Axes logits = {a.batch, a.queries, a.vocabulary};
    const TensorId scores =
        Add(Op("output layer", GraphOpKind::kMatmul,
               {x, Weight("output layer", {hidden_, a.vocabulary})}, {Tensor("logits", logits)}));
    const TensorId loss = out_.graph.AddTensor(
        {"log probabilities", TensorRole::kActivation, DType::kFloat32, logits, kNoOp, {}});
    GraphOp op = Op("loss", GraphOpKind::kLogSoftmax, {scores}, {loss});
    op.kept = c_.loss == LossForm::kFused || c_.loss == LossForm::kOverwritten ? 1 : 0;
    Add(std::move(op));
  }

  TransformerStack stack_;
  TensorId normalised_ = 0;  // what attention reads
  AxisId depth_ = 0, value_depth_ = 0, choices_ = 0, positions_ = 0;
  AxisId of_expert_ = 0;  // of what experts are given and give
};

}  // namespace

LinearOp FurtherTokenJoin(const TransformerConfig& c, int64_t rows, int64_t tensor) {
  return {rows, std::max<int64_t>(c.hidden / tensor, 1), 2 * c.hidden};
}

TransformerGraph MakeTransformerGraph(const TransformerConfig& config, TransformerStack stack) {
  TransformerGraph graph;
  GraphBuilder(config, stack, graph).Build();
  return graph;
}

}  // namespace foretrace
