#include "simulator/workload/attention_graph.h"

#include <string>
#include <utility>

#include "simulator/workload/transformer_parts.h"

namespace foretrace {
namespace {

class AttentionBuilder : TransformerParts {
 public:
  AttentionBuilder(const TransformerConfig& config, const AttentionAxes& axes,
                   TransformerGraph& model)
      : TransformerParts(config, model), depth_(axes.depth), value_depth_(axes.value_depth) {
    hidden_ = axes.hidden;
    in_block_ = true;
  }

  TensorId Self(TensorId n, bool causal) {
    const Heads heads = c_.latent > 0 ? LatentHeads(n) : PlainHeads(n);
    const TensorId context = Context(heads, causal);
    return Projected("", c_.attention_gate ? Gated(context, heads.gate) : context);
  }

  TensorId Cross(TensorId x) {
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
    return Projected("cross ", Context({q, k, v}, false));
  }

 private:
  struct Heads {
    TensorId q, k, v, gate = -1;
  };

  // By the gate of each element, through a sigmoid.
  TensorId Gated(TensorId context, TensorId gate) {
    const TransformerAxes& a = out_.axes;
    GraphOp op = Op("attention gate", GraphOpKind::kElementwise, {context, gate},
                    {Tensor("gated context", {a.batch, a.heads, a.queries, value_depth_})});
    op.kept = 2;
    op.flop_per_element = 4;
    op.function = "multiply";
    return Add(std::move(op));
  }

  TensorId Context(const Heads& h, bool causal) {
    return c_.fused_attention ? Fused(h, causal) : Plain(h);
  }

  // The projection of the heads' contexts.
  TensorId Projected(const std::string& prefix, TensorId context) {
    const TransformerAxes& a = out_.axes;
    Ids inputs = {context, Weight(prefix + "projection", {a.heads, value_depth_, hidden_})};
    if (biased()) inputs.push_back(Weight(prefix + "projection bias", {hidden_}));
    return Add(Op(prefix + "projection", GraphOpKind::kMatmul, inputs,
                  {Tensor("projected", {a.stream, hidden_})}));
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
    if (c_.attention_gate) inputs.push_back(Weight("gate", {hidden_, a.heads, depth_}));
    if (HasQkvBiases(c_)) {
      inputs.push_back(Weight("query bias", {a.heads, depth_}));
      inputs.push_back(Weight("key bias", {a.kv_heads, depth_}));
      inputs.push_back(Weight("value bias", {a.kv_heads, depth_}));
    }
    TensorId q = Tensor("q", q_axes), k = Tensor("k", kv_axes);
    const TensorId v = Tensor("v", kv_axes);
    const TensorId gate = c_.attention_gate ? Tensor("gate", q_axes) : -1;
    Ids outputs = {q, k, v};
    if (c_.attention_gate) outputs.push_back(gate);
    Add(Op("qkv", GraphOpKind::kMatmul, inputs, outputs));
    if (c_.qk_norm) {
      q = Add(Op("query norm", GraphOpKind::kNorm, {q, Weight("query scale", {depth_})},
                 {Tensor("normalised q", q_axes)}));
      k = Add(Op("key norm", GraphOpKind::kNorm, {k, Weight("key scale", {depth_})},
                 {Tensor("normalised k", kv_axes)}));
    }
    if (!IsRotary(c_)) return {q, k, v, gate};
    const TensorId q2 = Tensor("rotated q", q_axes), k2 = Tensor("rotated k", kv_axes);
    Add(Rotary({q, k}, {q2, k2}));
    return {q2, k2, v, gate};
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
      const TensorId from = normalised(x, to);
      Add(Op("query up", GraphOpKind::kMatmul, {from, Weight("query", {to, a.heads, depth_})},
             {q}));
      if (c_.index_keys > 0) Index(n, from, to);
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

  // What chooses the keys, whole on every tensor-parallel rank: heads of queries with a weight
  // each, and one key, which is normalised; all are rotated. What it scores, serving has.
  void Index(TensorId n, TensorId query_latent, AxisId latent) {
    const TransformerAxes& a = out_.axes;
    const AxisId heads = Axis("index heads", c_.index_heads);
    const AxisId depth = Axis("index depth", c_.index_size);
    const Axes q_axes = {a.stream, heads, depth}, k_axes = {a.stream, depth};
    const TensorId q = Tensor("index q", q_axes), k = Tensor("index k", k_axes);
    Add(Op("index query", GraphOpKind::kMatmul,
           {query_latent, Weight("index query", {latent, heads, depth})}, {q}));
    Add(Op("index key", GraphOpKind::kMatmul, {n, Weight("index key", {hidden_, depth})}, {k}));
    const TensorId normalised =
        Add(Op("index norm", GraphOpKind::kNorm,
               {k, Weight("index scale", {depth}), Weight("index shift", {depth})},
               {Tensor("normalised index k", k_axes)}));
    Add(Op("index weights", GraphOpKind::kMatmul, {n, Weight("index weights", {hidden_, heads})},
           {Tensor("index weights", {a.stream, heads})}));
    Add(Rotary({q, normalised},
               {Tensor("rotated index q", q_axes), Tensor("rotated index k", k_axes)}));
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

  AxisId depth_, value_depth_;
};

}  // namespace

TensorId AddAttention(const TransformerConfig& config, const AttentionAxes& axes, bool causal,
                      TensorId normalised, TransformerGraph& model) {
  return AttentionBuilder(config, axes, model).Self(normalised, causal);
}

TensorId AddCrossAttention(const TransformerConfig& config, const AttentionAxes& axes, TensorId x,
                           TransformerGraph& model) {
  return AttentionBuilder(config, axes, model).Cross(x);
}

}  // namespace foretrace
