#include <algorithm>
#include <initializer_list>

#include "simulator/dataflow/workloads.h"

namespace foretrace::dataflow {
namespace {

using Axes = absl::InlinedVector<AxisId, 2>;
using Loops = std::array<Axes, kLoops>;
using In = std::initializer_list<OpId>;

// A GEMM over "heads" contracts the heads' channels too.
struct LayerAxes {
  AxisId hidden, seq, heads, head, ffn;
  AxisId keys;          // that a position attends to
  AxisId experts = -1;  // -1: one FFN
  AxisId router = -1;   // experts as a position's choices, which are normalised together
  AxisId tokens;        // of each expert, shared evenly
  AxisId cached = -1;   // keys of earlier positions

  Axes each() const { return experts < 0 ? Axes{} : Axes{experts}; }
  Axes context() const { return {heads, head}; }
  Loops wide() const { return {{{}, {hidden}, {}, {seq}}}; }
  Loops scores() const { return {{{heads}, {seq}, {}, {keys}}}; }
  Loops to_ffn() const { return {{each(), {ffn}, {hidden}, {tokens}}}; }
  Loops from_ffn() const { return {{each(), {hidden}, {ffn}, {tokens}}}; }
  Loops inner() const { return {{each(), {ffn}, {}, {tokens}}}; }
  Loops routed() const { return {{{experts}, {hidden}, {}, {tokens}}}; }
  Loops to_heads() const { return {{{heads}, {head}, {hidden}, {seq}}}; }
  Loops from_heads() const { return {{{}, {hidden}, context(), {seq}}}; }
  Loops attention() const { return {{{heads}, {head}, {keys}, {seq}}}; }
  Loops head_update() const { return {{{}, {hidden}, {seq}, context()}}; }
};

class LayerBuilder {
 public:
  explicit LayerBuilder(const TransformerSizes& sizes) {
    const int64_t keys = sizes.keys > 0 ? sizes.keys : sizes.sequence;
    a.hidden = graph.AddAxis("hidden", sizes.hidden);
    a.seq = a.tokens = graph.AddAxis("seq", sizes.sequence);
    a.heads = graph.AddAxis("heads", sizes.heads);
    a.head = graph.AddAxis("head", sizes.head_size);
    a.keys = graph.AddAxis("keys", keys);
    a.ffn = graph.AddAxis("ffn", sizes.ffn > 0 ? sizes.ffn : 4 * sizes.hidden);
    if (keys > sizes.sequence) a.cached = graph.AddAxis("keys", keys - sizes.sequence);
    if (sizes.experts == 0) return;
    a.experts = graph.AddAxis("experts", sizes.experts);
    a.router = graph.AddAxis("router", sizes.experts);
    a.tokens =
        graph.AddAxis("seq", (sizes.sequence * sizes.top_k + sizes.experts - 1) / sizes.experts);
  }

  void Pass(Direction pass) { pass_ = pass; }
  OpId Op(std::string name, GraphOpKind kind, Loops loops, In in, Loop streamed = Loop::kN,
          TensorRole role = TensorRole::kActivation,
          std::span<const LoopGraph::Beside> beside = {}) {
    LoopNest nest;
    nest.axes = std::move(loops);
    nest.pass = pass_;
    nest.streamed = streamed;
    for (size_t l = 0; l < kLoops; ++l)
      nest.whole[l] = !nest.axes[l].empty() && nest.axes[l].front() == a.router;
    if (kind == GraphOpKind::kAttention) {
      // Scores and context; backward the scores again and four gradients (FlashAttention: Dao et
      // al., 2022, section 3.1 and algorithm 4).
      nest.times = pass_ == Direction::kForward ? 2 : 5;
      // Keys and, of gradients of keys and values, queries are summed over.
      nest.whole[static_cast<size_t>(Loop::kK)] = true;
      nest.whole[static_cast<size_t>(Loop::kN)] = pass_ == Direction::kBackward;
    }
    if (kind == GraphOpKind::kNorm) nest.whole[static_cast<size_t>(Loop::kM)] = true;
    if (kind == GraphOpKind::kSoftmax) nest.whole[static_cast<size_t>(Loop::kN)] = true;
    return graph.Add(std::move(name), kind, std::move(nest), in, role, beside);
  }
  OpId Weighted(std::string name, Loops loops, In in) {
    return Op(std::move(name), GraphOpKind::kMatmul, std::move(loops), in);
  }
  OpId Gemm(std::string name, Loops loops, In in) {
    return Op(std::move(name), GraphOpKind::kBatchedMatmul, std::move(loops), in);
  }
  OpId Elementwise(std::string name, Loops loops, In in) {
    return Op(std::move(name), GraphOpKind::kElementwise, std::move(loops), in);
  }
  OpId Wide(std::string name, In in) { return Elementwise(std::move(name), a.wide(), in); }
  OpId Norm(std::string name, In in) {
    return Op(std::move(name), GraphOpKind::kNorm, a.wide(), in);
  }
  OpId Dropout(std::string name, Loops loops, In in) {
    return Op(std::move(name), GraphOpKind::kDropout, std::move(loops), in);
  }
  // Gradients of weights, m x n over the sequence: reduced over replicas.
  void Update(std::string name, Loops loops, OpId gradient, OpId activation) {
    Op(std::move(name), GraphOpKind::kBatchedMatmul, std::move(loops), {gradient, activation},
       Loop::kK, TensorRole::kGradient);
  }
  // Of `from`, whose sequence `to` reads as keys; or the other way around.
  void AsKeys(OpId from, OpId to) { graph.Read({to, from, a.seq, a.keys}); }
  void AsSequence(OpId from, OpId to) { graph.Read({to, from, a.keys, a.seq}); }
  // Keys or values of earlier positions.
  std::vector<LoopGraph::Beside> Cache(std::string name) const {
    if (a.cached < 0) return {};
    return {{std::move(name), TensorRole::kKvCache, {a.heads, a.head, a.cached}, {}}};
  }

  LoopGraph graph;
  LayerAxes a = {};

 private:
  Direction pass_ = Direction::kForward;
};

struct Forward {
  OpId first, last;
  OpId norm1, q, k, v, dropout1, context, norm2, gelu;
  OpId ffn_input;  // norm2, or where experts get their tokens
  OpId router = kNoOp;
  bool fused = false;  // from queries, keys and values to the context
};

// From norm2 to what the layer's last dropout reads. Tokens go to their experts and back: divided
// by tokens before and by experts after, that is an all-to-all (expert parallelism).
OpId AddFfn(LayerBuilder& g, Forward& f) {
  const LayerAxes& a = g.a;
  f.ffn_input = f.norm2;
  if (a.experts >= 0) {
    f.router = g.Weighted("Router", {{{}, {a.router}, {a.hidden}, {a.seq}}}, {f.norm2});
    f.ffn_input = g.Elementwise("Dispatch", a.routed(), {f.norm2, f.router});
  }
  const OpId ffn0 = g.Weighted("FFN0", a.to_ffn(), {f.ffn_input});
  f.gelu = g.Elementwise("GeLU", a.inner(), {ffn0});
  const OpId ffn1 = g.Weighted("FFN1", a.from_ffn(), {f.gelu});
  return a.experts < 0 ? ffn1 : g.Wide("Combine", {ffn1, f.router});
}

OpId AddAttention(LayerBuilder& g, Forward& f) {
  const LayerAxes& a = g.a;
  const auto keys = g.Cache("keys"), values = g.Cache("values");
  const OpId scores =
      g.Op("MHA_GEMM_1", GraphOpKind::kScores, {{{a.heads}, {a.seq}, {a.head}, {a.keys}}},
           {f.q, f.k}, Loop::kN, TensorRole::kActivation, keys);
  g.AsKeys(f.k, scores);
  const OpId softmax = g.Op("SOFTMAX", GraphOpKind::kSoftmax, a.scores(), {scores});
  f.dropout1 = g.Dropout("DropOut_1", a.scores(), {softmax});
  // Cached values stream through.
  const OpId context = g.Op("MHA_GEMM_2", GraphOpKind::kContext,
                            {{{a.heads}, {a.head}, {a.keys}, {a.seq}}}, {f.v, f.dropout1},
                            values.empty() ? Loop::kN : Loop::kK, TensorRole::kActivation, values);
  g.AsKeys(f.v, context);
  return context;
}

OpId AddFusedAttention(LayerBuilder& g, const Forward& f) {
  const LayerAxes& a = g.a;
  auto cached = g.Cache("keys");
  for (LoopGraph::Beside& values : g.Cache("values")) cached.push_back(std::move(values));
  const OpId attention = g.Op("ATTENTION", GraphOpKind::kAttention, a.attention(), {f.q, f.k, f.v},
                              Loop::kN, TensorRole::kActivation, cached);
  g.AsKeys(f.k, attention);
  g.AsKeys(f.v, attention);
  return attention;
}

Forward AddForward(LayerBuilder& g, bool fused_attention) {
  const LayerAxes& a = g.a;
  Forward f;
  f.fused = fused_attention;
  const OpId add = g.Wide("Add_Prev_Layer", {});
  f.norm1 = g.Norm("LayerNorm_1", {add});
  f.q = g.Weighted("Q", a.to_heads(), {f.norm1});
  f.k = g.Weighted("K", a.to_heads(), {f.norm1});
  f.v = g.Weighted("V", a.to_heads(), {f.norm1});
  f.context = f.fused ? AddFusedAttention(g, f) : AddAttention(g, f);
  const OpId proj = g.Weighted("PROJ_GEMM", a.from_heads(), {f.context});
  const OpId drop2 = g.Dropout("DropOut_2", a.wide(), {proj});
  const OpId add1 = g.Wide("Add_1", {drop2, add});
  f.norm2 = g.Norm("LayerNorm_2", {add1});
  const OpId ffn = AddFfn(g, f);
  const OpId drop3 = g.Dropout("DropOut_3", a.wide(), {ffn});
  f.first = add;
  f.last = g.Wide("Add_2", {drop3, add1});
  return f;
}

struct FfnBackward {
  OpId arriving;  // gradient of what FFN1 makes
  OpId gelu, out;
};

FfnBackward AddFfnBackward(LayerBuilder& g, const Forward& f, OpId gradient) {
  const LayerAxes& a = g.a;
  FfnBackward b;
  b.arriving = gradient;
  if (a.experts >= 0) b.arriving = g.Elementwise("Combine_bwd", a.routed(), {gradient, f.router});
  const OpId ffn1 = g.Weighted("FFN1_bwd", a.to_ffn(), {b.arriving});
  b.gelu = g.Elementwise("GeLU_bwd", a.inner(), {ffn1});
  b.out = g.Weighted("FFN0_bwd", a.from_ffn(), {b.gelu});
  if (a.experts < 0) return b;
  const OpId dispatch = g.Wide("Dispatch_bwd", {b.out});
  const OpId router =
      g.Weighted("Router_bwd", {{{}, {a.hidden}, {a.router}, {a.seq}}}, {b.arriving});
  b.out = g.Wide("Add_Router_bwd", {dispatch, router});
  return b;
}

struct AttentionBackward {
  OpId drop2;  // gradient of the projection's result
  OpId dv, dq, dk, v;
  bool by_keys;  // dv and dk are over keys, which are the sequence
};

void AddGradients(LayerBuilder& g, const Forward& f, OpId proj, AttentionBackward& b) {
  const LayerAxes& a = g.a;
  const OpId dp =
      g.Gemm("MHA_GEMM_2_bwd1", {{{a.heads}, {a.seq}, {a.head}, {a.keys}}}, {proj, f.v});
  g.AsKeys(f.v, dp);
  b.dv = g.Gemm("MHA_GEMM_2_bwd2", {{{a.heads}, {a.head}, {a.seq}, {a.keys}}}, {proj, f.dropout1});
  b.v = g.Weighted("V_bwd", a.from_heads(), {b.dv});
  g.AsSequence(b.dv, b.v);
  const OpId drop1 = g.Dropout("DropOut_1_bwd", a.scores(), {dp});
  const OpId softmax = g.Op("SOFTMAX_bwd", GraphOpKind::kSoftmax, a.scores(), {drop1});
  b.dq = g.Gemm("MHA_GEMM_1_bwd1", {{{a.heads}, {a.head}, {a.keys}, {a.seq}}}, {softmax, f.k});
  g.AsKeys(f.k, b.dq);
  b.dk = g.Gemm("MHA_GEMM_1_bwd2", {{{a.heads}, {a.head}, {a.seq}, {a.keys}}}, {softmax, f.q});
}

AttentionBackward AddAttentionBackward(LayerBuilder& g, const Forward& f, OpId gradient) {
  const LayerAxes& a = g.a;
  AttentionBackward b;
  b.by_keys = !f.fused;
  b.drop2 = g.Dropout("DropOut_2_bwd", a.wide(), {gradient});
  const OpId proj =
      g.Weighted("PROJ_GEMM_bwd", {{{}, a.context(), {a.hidden}, {a.seq}}}, {b.drop2});
  if (f.fused) {
    // Each of its readers has a gradient of its own.
    b.dv = b.dq = b.dk = g.Op("ATTENTION_bwd", GraphOpKind::kAttention, a.attention(),
                              {proj, f.q, f.k, f.v, f.context});
    g.AsKeys(f.k, b.dk);
    g.AsKeys(f.v, b.dv);
    b.v = g.Weighted("V_bwd", a.from_heads(), {b.dv});
  } else {
    AddGradients(g, f, proj, b);
  }
  const OpId q = g.Weighted("Q_bwd", a.from_heads(), {b.dq});
  const OpId k = g.Weighted("K_bwd", a.from_heads(), {b.dk});
  if (b.by_keys) g.AsSequence(b.dk, k);
  // The sum over heads is V_bwd's all-reduce.
  g.graph.ReduceElsewhere(q);
  g.graph.ReduceElsewhere(k);
  return b;
}

void AddBackward(LayerBuilder& g, const Forward& f) {
  const LayerAxes& a = g.a;
  g.Pass(Direction::kBackward);
  const OpId loss = g.Wide("Loss_bwd", {});
  const OpId drop3 = g.Dropout("DropOut_3_bwd", a.wide(), {loss});
  const FfnBackward ffn = AddFfnBackward(g, f, drop3);
  const OpId norm2 = g.Norm("LayerNorm_2_bwd", {ffn.out});
  const AttentionBackward b = AddAttentionBackward(g, f, norm2);
  g.Update("FFN1_bwd_weight_update", {{a.each(), {a.ffn}, {a.tokens}, {a.hidden}}}, ffn.arriving,
           f.gelu);
  g.Update("FFN0_bwd_weight_update", {{a.each(), {a.hidden}, {a.tokens}, {a.ffn}}}, ffn.gelu,
           f.ffn_input);
  g.Update("PROJ_GEMM_bwd_weight_update", a.head_update(), b.drop2, f.context);
  const auto update = [&](std::string name, OpId gradient, bool keys) {
    const auto id = static_cast<OpId>(g.graph.size());
    g.Update(std::move(name), a.head_update(), gradient, f.norm1);
    if (keys) g.AsSequence(gradient, id);
  };
  update("V_bwd_weight_update", b.dv, b.by_keys);
  update("K_bwd_weight_update", b.dk, b.by_keys);
  update("Q_bwd_weight_update", b.dq, false);
  g.graph.Carry({b.v, loss});
  if (a.experts < 0) return;
  g.Update("Router_bwd_weight_update", {{{}, {a.hidden}, {a.seq}, {a.router}}}, ffn.arriving,
           f.norm2);
}

// The last norm, the output layer and the loss.
Workload MakeHead(const TransformerSizes& sizes) {
  LayerBuilder g({sizes.hidden, sizes.heads, sizes.head_size, sizes.sequence});
  const LayerAxes& a = g.a;
  const AxisId words = g.graph.AddAxis("vocabulary", sizes.vocabulary);
  const Loops logits = {{{}, {words}, {}, {a.seq}}};
  const OpId norm = g.Norm("LayerNorm_head", {});
  const OpId gemm = g.Weighted("LOGITS", {{{}, {words}, {a.hidden}, {a.seq}}}, {norm});
  const OpId loss = g.Elementwise("LOSS", logits, {gemm});
  if (sizes.train) {
    g.Pass(Direction::kBackward);
    const OpId gradient = g.Elementwise("LOSS_head_bwd", logits, {loss});
    const OpId input = g.Weighted("LOGITS_bwd", {{{}, {a.hidden}, {words}, {a.seq}}}, {gradient});
    g.Norm("LayerNorm_head_bwd", {input});
    g.Update("LOGITS_bwd_weight_update", {{{}, {words}, {a.seq}, {a.hidden}}}, gradient, norm);
  }
  return MakeWorkload("output layer", std::move(g.graph));
}

}  // namespace

Workload MakeTransformer(const TransformerSizes& sizes) {
  LayerBuilder builder(sizes);
  const Forward forward = AddForward(builder, sizes.fused_attention);
  builder.graph.Carry({forward.last, forward.first});
  if (sizes.train) AddBackward(builder, forward);
  Workload w = MakeWorkload("transformer", std::move(builder.graph));
  if (sizes.vocabulary > 0) w.head = std::make_shared<const Workload>(MakeHead(sizes));
  StackLayers(sizes.layers, sizes.batch, sizes.sequence, sizes.hidden, w);
  return w;
}

}  // namespace foretrace::dataflow
