#include "simulator/workload/transformer_graph.h"

#include <algorithm>
#include <utility>

#include "simulator/workload/layer_pattern.h"
#include "simulator/workload/mixer_graph.h"

namespace foretrace {
namespace {

class Builder {
 public:
  Builder(const TransformerConfig& config, TransformerStack stack) : c_(config), stack_(stack) {
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
    depth_ = Axis("depth", c_.head_size);
    value_depth_ = c_.latent > 0 ? Axis("value depth", c_.value_size) : depth_;
    choices_ = Axis("router", c_.experts);
    positions_ = Axis("positions", c_.positions);
  }

  TransformerGraph Build() {
    TensorId x = Embedding();
    block_ = true;
    x = Layer(x);
    block_ = false;
    Head(x);
    return std::move(out_);
  }

 private:
  using Axes = absl::InlinedVector<AxisId, 4>;
  using Ids = absl::InlinedVector<TensorId, 4>;

  TensorId Layer(TensorId entered) {
    switch (PartOf(c_)) {
      case LayerPart::kMixer:
        return Residual("mixer residual", AddMixer(c_, hidden_, Norm("norm 1", entered), out_),
                        entered);
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

  bool gated() const { return IsGated(c_); }
  bool biased() const { return HasBiases(c_); }
  bool drops() const { return Drops(c_); }
  bool bert() const { return c_.family == TransformerFamily::kBert; }

  AxisId Axis(std::string_view name, int64_t size = 0) { return out_.graph.AddAxis(name, size); }
  TensorId Tensor(std::string_view name, Axes axes) {
    return out_.graph.AddTensor(
        {std::string(name), TensorRole::kActivation, c_.dtype, std::move(axes), kNoOp, {}});
  }
  TensorId Mask(Axes axes) {
    return out_.graph.AddTensor(
        {"mask", TensorRole::kActivation, DType::kUInt8, std::move(axes), kNoOp, {}});
  }
  TensorId Weight(std::string_view name, Axes axes) {
    return out_.graph.AddTensor(
        {std::string(name), TensorRole::kWeight, c_.dtype, std::move(axes), kNoOp, {}});
  }
  TensorId Indices(std::string_view name, Axes axes) {
    return out_.graph.AddTensor(
        {std::string(name), TensorRole::kIndex, DType::kInt64, std::move(axes), kNoOp, {}});
  }
  GraphOp Op(std::string_view name, GraphOpKind kind, Ids inputs, Ids outputs) const {
    GraphOp op;
    op.name = name;
    op.kind = kind;
    op.inputs = std::move(inputs);
    op.outputs.assign(outputs.begin(), outputs.end());
    op.in_block = block_;
    return op;
  }
  TensorId Add(GraphOp op) {
    const TensorId out = op.outputs[0];
    out_.graph.AddOp(std::move(op));
    return out;
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

  TensorId Norm(std::string_view name, TensorId x) {
    Ids inputs = {x, Weight("scale", {hidden_})};
    if (HasNormBiases(c_)) inputs.push_back(Weight("shift", {hidden_}));
    return Add(
        Op(name, GraphOpKind::kNorm, inputs, {Tensor("normalised", {out_.axes.stream, hidden_})}));
  }

  // x plus what a branch adds to it, with dropout where the family trains with it.
  TensorId Residual(std::string_view name, TensorId branch, TensorId x) {
    const Axes axes = {out_.axes.stream, hidden_};
    Ids outputs = {Tensor("residual", axes)};
    if (drops()) outputs.push_back(Mask(axes));
    return Add(Op(name, GraphOpKind::kAdd, {branch, x}, outputs));
  }

  // What a branch gives, normalised where the model does so.
  TensorId After(std::string_view name, TensorId branch) {
    return c_.post_norms ? Norm(name, branch) : branch;
  }

  struct Heads {
    TensorId q, k, v;
  };

  TensorId Attention(TensorId x) {
    const TensorId n = normalised_ = Norm("norm 1", x);
    const Heads h = c_.latent > 0 ? LatentHeads(n) : PlainHeads(n);
    const bool causal = !bert() && stack_ != TransformerStack::kEncoder;
    return Attended("", c_.fused_attention ? Fused(h, causal) : Plain(h), x);
  }

  // Queries of the decoder's tokens, keys and values of what the encoder passes on.
  TensorId CrossAttention(TensorId x) {
    const TransformerAxes& a = out_.axes;
    out_.memory = Tensor("memory", {a.stream, hidden_});
    const TensorId n = Norm("cross norm", x);
    const TensorId q = Tensor("cross q", {a.batch, a.heads, a.queries, depth_});
    const Axes kv_axes = {a.batch, a.kv_heads, a.queries, depth_};
    const TensorId k = Tensor("cross k", kv_axes), v = Tensor("cross v", kv_axes);
    Add(Op("cross query", GraphOpKind::kMatmul,
           {n, Weight("cross query", {hidden_, a.heads, depth_})}, {q}));
    Add(Op("cross key and value", GraphOpKind::kMatmul,
           {out_.memory, Weight("cross key", {hidden_, a.kv_heads, depth_}),
            Weight("cross value", {hidden_, a.kv_heads, depth_})},
           {k, v}));
    const Heads h = {q, k, v};
    return Attended("cross ", c_.fused_attention ? Fused(h, false) : Plain(h), x);
  }

  // The projection of the heads' contexts, added to what attention was given.
  TensorId Attended(const std::string& prefix, TensorId context, TensorId x) {
    const TransformerAxes& a = out_.axes;
    Ids inputs = {context, Weight(prefix + "projection", {a.heads, value_depth_, hidden_})};
    if (biased()) inputs.push_back(Weight(prefix + "projection bias", {hidden_}));
    const TensorId branch = Add(Op(prefix + "projection", GraphOpKind::kMatmul, inputs,
                                   {Tensor("projected", {a.stream, hidden_})}));
    return Residual(prefix + "attention residual", After("attention post norm", branch), x);
  }

  GraphOp Rotary(Ids inputs, Ids outputs) const {
    GraphOp op = Op("rotary", GraphOpKind::kElementwise, std::move(inputs), std::move(outputs));
    op.function = "rotary";
    return op;
  }

  Heads PlainHeads(TensorId n) {
    const TransformerAxes& a = out_.axes;
    const Axes q_axes = {a.batch, a.heads, a.queries, depth_};
    const Axes kv_axes = {a.batch, a.kv_heads, a.queries, depth_};
    Ids inputs = {n, Weight("query", {hidden_, a.heads, depth_}),
                  Weight("key", {hidden_, a.kv_heads, depth_}),
                  Weight("value", {hidden_, a.kv_heads, depth_})};
    if (HasQkvBiases(c_)) {
      inputs.push_back(Weight("query bias", {a.heads, depth_}));
      inputs.push_back(Weight("key bias", {a.kv_heads, depth_}));
      inputs.push_back(Weight("value bias", {a.kv_heads, depth_}));
    }
    TensorId q = Tensor("q", q_axes), k = Tensor("k", kv_axes);
    const TensorId v = Tensor("v", kv_axes);
    Add(Op("qkv", GraphOpKind::kMatmul, inputs, {q, k, v}));
    if (c_.qk_norm) {
      q = Add(Op("query norm", GraphOpKind::kNorm, {q, Weight("query scale", {depth_})},
                 {Tensor("normalised q", q_axes)}));
      k = Add(Op("key norm", GraphOpKind::kNorm, {k, Weight("key scale", {depth_})},
                 {Tensor("normalised k", kv_axes)}));
    }
    if (!IsRotary(c_)) return {q, k, v};
    const TensorId q2 = Tensor("rotated q", q_axes), k2 = Tensor("rotated k", kv_axes);
    Add(Rotary({q, k}, {q2, k2}));
    return {q2, k2, v};
  }

  // Down to the latents on the stream's tokens, whole on every tensor-parallel rank, and up to its
  // heads; one key vector beside the latent is rotated for all heads.
  Heads LatentHeads(TensorId n) {
    const TransformerAxes& a = out_.axes;
    const AxisId latent = Axis("latent", c_.latent), rotated = Axis("rotated", c_.rotary_size);
    const AxisId unrotated = Axis("unrotated", c_.head_size - c_.rotary_size);
    const auto normalised = [&](TensorId x, AxisId size) {
      return Add(Op("latent norm", GraphOpKind::kNorm, {x, Weight("latent scale", {size})},
                    {Tensor("normalised latent", {a.stream, size})}));
    };
    const Axes q_axes = {a.batch, a.heads, a.queries, depth_};
    const TensorId q = Tensor("q", q_axes), q2 = Tensor("rotated q", q_axes);
    if (c_.query_latent > 0) {
      const AxisId to = Axis("query latent", c_.query_latent);
      const TensorId x =
          Add(Op("query down", GraphOpKind::kMatmul, {n, Weight("query down", {hidden_, to})},
                 {Tensor("query latent", {a.stream, to})}));
      Add(Op("query up", GraphOpKind::kMatmul,
             {normalised(x, to), Weight("query", {to, a.heads, depth_})}, {q}));
    } else {
      Add(Op("query", GraphOpKind::kMatmul, {n, Weight("query", {hidden_, a.heads, depth_})}, {q}));
    }
    const TensorId both = Tensor("latent", {a.stream, latent});
    const TensorId shared = Tensor("rotated key", {a.stream, rotated});
    Add(Op("key and value down", GraphOpKind::kMatmul,
           {n, Weight("down", {hidden_, latent}), Weight("rotated key", {hidden_, rotated})},
           {both, shared}));
    const TensorId k = Tensor("unrotated k", {a.batch, a.heads, a.queries, unrotated});
    const TensorId v = Tensor("v", {a.batch, a.heads, a.queries, value_depth_});
    Add(Op("key and value up", GraphOpKind::kMatmul,
           {normalised(both, latent), Weight("key", {latent, a.heads, unrotated}),
            Weight("value", {latent, a.heads, value_depth_})},
           {k, v}));
    const TensorId k2 = Tensor("k", q_axes);
    Add(Rotary({q, k, shared}, {q2, k2}));
    return {q2, k2, v};
  }

  TensorId Fused(const Heads& h, bool causal) {
    const TransformerAxes& a = out_.axes;
    GraphOp op = Op("attention", GraphOpKind::kAttention, {h.q, h.k, h.v},
                    {Tensor("context", {a.batch, a.heads, a.queries, value_depth_})});
    op.causal = causal;
    op.keys = a.keys;
    return Add(std::move(op));
  }

  TensorId Plain(const Heads& h) {
    const TransformerAxes& a = out_.axes;
    const Axes matrix = {a.batch, a.heads, a.queries, a.keys};
    const auto core = [&](GraphOp op) {
      op.attention_core = true;
      return Add(std::move(op));
    };
    const TensorId scores =
        core(Op("scores", GraphOpKind::kScores, {h.q, h.k}, {Tensor("scores", matrix)}));
    TensorId p =
        core(Op("softmax", GraphOpKind::kSoftmax, {scores}, {Tensor("probabilities", matrix)}));
    if (drops()) {
      p = core(Op("attention dropout", GraphOpKind::kDropout, {p},
                  {Tensor("dropped", matrix), Mask(matrix)}));
    }
    return Add(Op("context", GraphOpKind::kContext, {p, h.v},
                  {Tensor("context", {a.batch, a.heads, a.queries, value_depth_})}));
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
    const Axes routed = {a.stream_routed, hidden_};
    const TensorId sent =
        Add(Op("dispatch", GraphOpKind::kGather, {n, Indices("routes", {a.stream_routed})},
               {Tensor("dispatched", routed)}));
    Ids inputs = {sent, Weight("up", {a.experts, hidden_, a.up})};
    if (biased()) inputs.push_back(Weight("up bias", {a.experts, a.up}));
    const TensorId up = Add(Up("ffn up", inputs, {Tensor("up", {a.routed, a.up})}));
    inputs = {Activation(up, a.routed), Weight("down", {a.experts, a.ffn, hidden_})};
    if (biased()) inputs.push_back(Weight("down bias", {a.experts, hidden_}));
    const TensorId down =
        Add(Op("ffn down", GraphOpKind::kMatmul, inputs, {Tensor("down", routed)}));
    GraphOp combine =
        Op("combine", GraphOpKind::kElementwise, {down}, {Tensor("combined", {a.stream, hidden_})});
    combine.kept = c_.weighs_activations ? 0 : 1;  // the routers' gradient
    combine.function = "multiply";
    TensorId result = Add(std::move(combine));
    if (c_.shared_ffn > 0) {
      result = Add(Op("expert sum", GraphOpKind::kAdd, {Shared(n), result},
                      {Tensor("expert sum", {a.stream, hidden_})}));
    }
    return Residual("ffn residual", After("ffn post norm", result), x);
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
    return Add(Op("shared down", GraphOpKind::kMatmul,
                  {Add(std::move(op)), Weight("shared down", {a.shared, hidden_})},
                  {Tensor("shared down", {a.stream, hidden_})}));
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

  const TransformerConfig& c_;
  TransformerStack stack_;
  TransformerGraph out_;
  TensorId normalised_ = 0;  // what attention reads
  AxisId hidden_ = 0, depth_ = 0, value_depth_ = 0, choices_ = 0, positions_ = 0;
  bool block_ = false;
};

}  // namespace

LinearOp FurtherTokenJoin(const TransformerConfig& c, int64_t rows, int64_t tensor) {
  return {rows, std::max<int64_t>(c.hidden / tensor, 1), 2 * c.hidden};
}

TransformerGraph MakeTransformerGraph(const TransformerConfig& config, TransformerStack stack) {
  return Builder(config, stack).Build();
}

}  // namespace foretrace
