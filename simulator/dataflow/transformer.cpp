#include <algorithm>
#include <initializer_list>

#include "simulator/dataflow/workloads.h"

namespace foretrace::dataflow {
namespace {

using Sizes = std::array<int64_t, kDimensions>;
using Labels = std::array<std::string, kDimensions>;

class LayerBuilder {
 public:
  explicit LayerBuilder(Workload& workload) : workload_(workload) {}

  void Pass(dataflow::Pass pass) { pass_ = pass; }
  int Gemm(std::string name, Sizes size, Labels label, KernelKind kind,
           std::initializer_list<int> in) {
    Kernel k;
    k.name = std::move(name);
    k.kind = kind;
    k.pass = pass_;
    k.size = size;
    k.label = std::move(label);
    return Add(std::move(k), in);
  }
  // rows x sequence, for each of `outer`.
  int Elementwise(std::string name, Sizes size, Labels label, std::initializer_list<int> in) {
    return Gemm(std::move(name), size, std::move(label), KernelKind::kElementwise, in);
  }
  // What it does, where that is more than reading and writing each element.
  int Does(dataflow::Elementwise what, int id) {
    kernel(id).elementwise = what;
    return id;
  }
  // The last tensor of `to` that comes from `from`.
  void Rename(int from, int to, std::string producer, std::string consumer) {
    for (Tensor& t : workload_.tensors) {
      if (t.from == from && t.to == to) t.renamed = {producer, consumer};
    }
  }
  // Elements of keys or values of earlier tokens.
  void Caches(int id, double elements, Dimension lacks) {
    kernel(id).stored_bytes = elements * workload_.word_bytes;
    kernel(id).stored_lacks = lacks;
  }
  Kernel& kernel(int i) { return workload_.kernels[static_cast<size_t>(i)]; }

 private:
  int Add(Kernel k, std::initializer_list<int> in) {
    const int id = static_cast<int>(workload_.kernels.size());
    workload_.kernels.push_back(std::move(k));
    for (const int from : in) workload_.tensors.push_back({from, id, {}});
    return id;
  }
  Workload& workload_;
  dataflow::Pass pass_ = dataflow::Pass::kForward;
};

struct Forward {
  int norm1, q, k, v, dropout1, context, norm2, gelu;
  int ffn_input;  // norm2, or where experts get their tokens
  int router = -1;
};

// Labels by axis: outer, m, k, n. A product over "heads" contracts the heads' channels.
struct Shapes {
  int64_t h, s, heads, d, f;
  int64_t keys;     // that a position attends to
  int64_t experts;  // 0: one FFN
  int64_t tokens;   // of each expert, shared evenly
  Sizes to_ffn() const { return {std::max<int64_t>(experts, 1), f, h, tokens}; }
  Sizes from_ffn() const { return {std::max<int64_t>(experts, 1), h, f, tokens}; }
  Sizes inner() const { return {std::max<int64_t>(experts, 1), f, 1, tokens}; }
  Sizes routed() const { return {experts, h, 1, tokens}; }
  // The first axis of what each expert has for itself.
  std::string each() const { return experts > 0 ? "experts" : ""; }
  Sizes wide() const { return {1, h, 1, s}; }
  Sizes scores() const { return {heads, s, 1, keys}; }
  static Labels Wide() { return {"", "hidden", "", "seq"}; }
  static Labels Norm() { return {"", "", "", "seq"}; }
  static Labels Scores() { return {"heads", "seq", "", "keys"}; }
};

// From norm2 to what the layer's last dropout reads. Tokens go to their experts and back: divided
// by tokens before and by experts after, that is an all-to-all (expert parallelism).
int AddFfn(LayerBuilder& g, const Shapes& z, Forward& f) {
  constexpr KernelKind kW = KernelKind::kWeightedGemm;
  f.ffn_input = f.norm2;
  if (z.experts > 0) {
    f.router = g.Gemm("Router", {1, z.experts, z.h, z.s}, {"", "", "hidden", "seq"}, kW, {f.norm2});
    f.ffn_input = g.Elementwise("Dispatch", z.routed(), {"experts", "hidden", "", "seq"},
                                {f.norm2, f.router});
  }
  const int ffn0 =
      g.Gemm("FFN0", z.to_ffn(), {z.each(), "ffn", "hidden", "seq"}, kW, {f.ffn_input});
  f.gelu = g.Elementwise("GeLU", z.inner(), {z.each(), "ffn", "", "seq"}, {ffn0});
  const int ffn1 = g.Gemm("FFN1", z.from_ffn(), {z.each(), "hidden", "ffn", "seq"}, kW, {f.gelu});
  if (z.experts == 0) return ffn1;
  return g.Elementwise("Combine", z.wide(), Shapes::Wide(), {ffn1, f.router});
}

Forward AddForward(LayerBuilder& g, const Shapes& z) {
  constexpr KernelKind kW = KernelKind::kWeightedGemm, kG = KernelKind::kGemm;
  const Sizes project = {z.heads, z.d, z.h, z.s};
  const Labels to_heads = {"heads", "head", "hidden", "seq"};
  Forward f;
  const int add = g.Elementwise("Add_Prev_Layer", z.wide(), Shapes::Wide(), {});
  f.norm1 =
      g.Does(Elementwise::kNorm, g.Elementwise("LayerNorm_1", z.wide(), Shapes::Norm(), {add}));
  f.q = g.Gemm("Q", project, to_heads, kW, {f.norm1});
  f.k = g.Gemm("K", project, to_heads, kW, {f.norm1});
  f.v = g.Gemm("V", project, to_heads, kW, {f.norm1});
  const int scores = g.Gemm("MHA_GEMM_1", {z.heads, z.s, z.d, z.keys},
                            {"heads", "seq", "head", "keys"}, kG, {f.q, f.k});
  g.Rename(f.k, scores, "seq", "keys");
  // Softmax runs along the keys.
  const int softmax =
      g.Does(Elementwise::kSoftmax,
             g.Elementwise("SOFTMAX", z.scores(), {"heads", "seq", "", ""}, {scores}));
  f.dropout1 = g.Does(Elementwise::kDropout,
                      g.Elementwise("DropOut_1", z.scores(), Shapes::Scores(), {softmax}));
  f.context = g.Gemm("MHA_GEMM_2", {z.heads, z.d, z.keys, z.s}, {"heads", "head", "keys", "seq"},
                     kG, {f.v, f.dropout1});
  if (z.keys > z.s) {
    const double cached = static_cast<double>(z.heads * z.d) * static_cast<double>(z.keys - z.s);
    g.Caches(scores, cached, Dimension::kM);
    g.Caches(f.context, cached, Dimension::kN);
    g.kernel(f.context).tiled = Dimension::kK;  // values stream through
  }
  g.Rename(f.v, f.context, "seq", "keys");
  const int proj =
      g.Gemm("PROJ_GEMM", {1, z.h, z.h, z.s}, {"", "hidden", "heads", "seq"}, kW, {f.context});
  const int drop2 =
      g.Does(Elementwise::kDropout, g.Elementwise("DropOut_2", z.wide(), Shapes::Wide(), {proj}));
  const int add1 = g.Elementwise("Add_1", z.wide(), Shapes::Wide(), {drop2, add});
  f.norm2 =
      g.Does(Elementwise::kNorm, g.Elementwise("LayerNorm_2", z.wide(), Shapes::Norm(), {add1}));
  const int ffn = AddFfn(g, z, f);
  const int drop3 =
      g.Does(Elementwise::kDropout, g.Elementwise("DropOut_3", z.wide(), Shapes::Wide(), {ffn}));
  g.Elementwise("Add_2", z.wide(), Shapes::Wide(), {drop3, add1});
  return f;
}

// Gradients of weights, m x n over the sequence: reduced over replicas.
void AddUpdate(LayerBuilder& g, std::string name, Sizes size, Labels label, int gradient,
               int activation) {
  const int id =
      g.Gemm(std::move(name), size, std::move(label), KernelKind::kGemm, {gradient, activation});
  g.kernel(id).tiled = Dimension::kK;
  g.kernel(id).weight_gradient = true;
}

struct FfnBackward {
  int arriving;  // gradient of what FFN1 makes
  int gelu, out;
  int router = -1;
};

FfnBackward AddFfnBackward(LayerBuilder& g, const Shapes& z, const Forward& f, int gradient) {
  constexpr KernelKind kW = KernelKind::kWeightedGemm;
  FfnBackward b;
  b.arriving = gradient;
  if (z.experts > 0) {
    b.arriving = g.Elementwise("Combine_bwd", z.routed(), {"experts", "hidden", "", "seq"},
                               {gradient, f.router});
  }
  const int ffn1 =
      g.Gemm("FFN1_bwd", z.to_ffn(), {z.each(), "ffn", "hidden", "seq"}, kW, {b.arriving});
  b.gelu = g.Elementwise("GeLU_bwd", z.inner(), {z.each(), "ffn", "", "seq"}, {ffn1});
  b.out = g.Gemm("FFN0_bwd", z.from_ffn(), {z.each(), "hidden", "ffn", "seq"}, kW, {b.gelu});
  if (z.experts > 0) {
    const int dispatch = g.Elementwise("Dispatch_bwd", z.wide(), Shapes::Wide(), {b.out});
    b.router =
        g.Gemm("Router_bwd", {1, z.h, z.experts, z.s}, {"", "hidden", "", "seq"}, kW, {b.arriving});
    b.out = g.Elementwise("Add_Router_bwd", z.wide(), Shapes::Wide(), {dispatch, b.router});
  }
  return b;
}

void AddFfnUpdates(LayerBuilder& g, const Shapes& z, const Forward& f, const FfnBackward& b) {
  const int64_t e = std::max<int64_t>(z.experts, 1);
  AddUpdate(g, "FFN1_bwd_weight_update", {e, z.f, z.tokens, z.h},
            {z.each(), "ffn", "seq", "hidden"}, b.arriving, f.gelu);
  AddUpdate(g, "FFN0_bwd_weight_update", {e, z.h, z.tokens, z.f},
            {z.each(), "hidden", "seq", "ffn"}, b.gelu, f.ffn_input);
}

void AddBackward(LayerBuilder& g, const Shapes& z, const Forward& f) {
  constexpr KernelKind kW = KernelKind::kWeightedGemm, kG = KernelKind::kGemm;
  g.Pass(Pass::kBackward);
  const Labels from_heads = {"", "hidden", "heads", "seq"};
  const int loss = g.Elementwise("Loss_bwd", z.wide(), Shapes::Wide(), {});
  const int drop3 = g.Does(Elementwise::kDropout,
                           g.Elementwise("DropOut_3_bwd", z.wide(), Shapes::Wide(), {loss}));
  const FfnBackward ffn = AddFfnBackward(g, z, f, drop3);
  const int norm2 = g.Does(Elementwise::kNorm,
                           g.Elementwise("LayerNorm_2_bwd", z.wide(), Shapes::Norm(), {ffn.out}));
  const int drop2 = g.Does(Elementwise::kDropout,
                           g.Elementwise("DropOut_2_bwd", z.wide(), Shapes::Wide(), {norm2}));
  const int proj =
      g.Gemm("PROJ_GEMM_bwd", {1, z.h, z.h, z.s}, {"", "heads", "hidden", "seq"}, kW, {drop2});
  const int dp = g.Gemm("MHA_GEMM_2_bwd1", {z.heads, z.s, z.d, z.s},
                        {"heads", "seq", "head", "keys"}, kG, {proj, f.v});
  g.Rename(f.v, dp, "seq", "keys");
  const int dv = g.Gemm("MHA_GEMM_2_bwd2", {z.heads, z.d, z.s, z.s},
                        {"heads", "head", "seq", "keys"}, kG, {proj, f.dropout1});
  const int v = g.Gemm("V_bwd", {1, z.h, z.h, z.s}, from_heads, kW, {dv});
  g.Rename(dv, v, "keys", "seq");
  const int drop1 = g.Does(Elementwise::kDropout,
                           g.Elementwise("DropOut_1_bwd", z.scores(), Shapes::Scores(), {dp}));
  const int softmax =
      g.Does(Elementwise::kSoftmax,
             g.Elementwise("SOFTMAX_bwd", z.scores(), {"heads", "seq", "", ""}, {drop1}));
  const int dq = g.Gemm("MHA_GEMM_1_bwd1", {z.heads, z.d, z.s, z.s},
                        {"heads", "head", "keys", "seq"}, kG, {softmax, f.k});
  g.Rename(f.k, dq, "seq", "keys");
  const int dk = g.Gemm("MHA_GEMM_1_bwd2", {z.heads, z.d, z.s, z.s},
                        {"heads", "head", "seq", "keys"}, kG, {softmax, f.q});
  // Published as outer x m, like the forward projections; the sum over heads is V_bwd's all-reduce.
  const int q = g.Gemm("Q_bwd", {1, z.h, z.h, z.s}, from_heads, kW, {dq});
  const int k = g.Gemm("K_bwd", {1, z.h, z.h, z.s}, from_heads, kW, {dk});
  g.Rename(dk, k, "keys", "seq");
  g.kernel(q).reduced_elsewhere = g.kernel(k).reduced_elsewhere = true;
  AddFfnUpdates(g, z, f, ffn);
  AddUpdate(g, "PROJ_GEMM_bwd_weight_update", {1, z.h, z.s, z.h}, {"", "hidden", "seq", "heads"},
            drop2, f.context);
  AddUpdate(g, "V_bwd_weight_update", {1, z.h, z.s, z.h}, {"", "hidden", "seq", "heads"}, dv,
            f.norm1);
  AddUpdate(g, "K_bwd_weight_update", {1, z.h, z.s, z.h}, {"", "hidden", "seq", "heads"}, dk,
            f.norm1);
  AddUpdate(g, "Q_bwd_weight_update", {1, z.h, z.s, z.h}, {"", "hidden", "seq", "heads"}, dq,
            f.norm1);
  const int last = q + 6;
  g.Rename(dv, last - 1, "keys", "seq");
  g.Rename(dk, last, "keys", "seq");
  if (z.experts > 0) {
    AddUpdate(g, "Router_bwd_weight_update", {1, z.h, z.s, z.experts}, {"", "hidden", "seq", ""},
              ffn.arriving, f.norm2);
  }
}

}  // namespace

Workload MakeTransformer(const TransformerSizes& sizes) {
  Workload w;
  w.name = "transformer";
  w.layers = sizes.layers;
  w.batch = sizes.batch;
  w.tiled_size = sizes.sequence;
  LayerBuilder builder(w);
  Shapes shapes = {};
  shapes.h = sizes.hidden, shapes.s = sizes.sequence, shapes.heads = sizes.heads;
  shapes.d = sizes.head_size, shapes.f = sizes.ffn > 0 ? sizes.ffn : 4 * sizes.hidden;
  shapes.keys = sizes.keys > 0 ? sizes.keys : sizes.sequence;
  shapes.experts = sizes.experts;
  shapes.tokens = sizes.experts > 0
                      ? (sizes.sequence * sizes.top_k + sizes.experts - 1) / sizes.experts
                      : sizes.sequence;
  const Forward forward = AddForward(builder, shapes);
  if (sizes.train) AddBackward(builder, shapes, forward);
  w.layer_input_bytes =
      static_cast<double>(sizes.hidden) * static_cast<double>(sizes.sequence) * w.word_bytes;
  return w;
}

}  // namespace foretrace::dataflow
