#include "simulator/workload/transformer_graph.h"

#include <gtest/gtest.h>

#include "simulator/cost/operator/kernel_work.h"
#include "simulator/graph/differentiate.h"

namespace foretrace {
namespace {

TransformerConfig Gpt() {
  TransformerConfig c;
  c.hidden = 1024;
  c.layers = 4;
  c.heads = 16;
  c.vocabulary = 2048;
  c.sequence = 512;
  return WithDefaults(c);
}

TransformerConfig Llama() {
  TransformerConfig c = Gpt();
  c.family = TransformerFamily::kLlama;
  c.kv_heads = 4;
  c.ffn = 3072;
  c.fused_attention = true;
  return c;
}

double Num(int64_t n) { return static_cast<double>(n); }

TEST(TransformerGraphTest, IsAGraph) {
  for (const TransformerConfig& c : {Gpt(), Llama()}) {
    const TransformerGraph model = MakeTransformerGraph(c);
    EXPECT_TRUE(model.graph.Validate().ok()) << model.graph.Validate();
    // The block's input is read by its norm and by its residual addition.
    const OperatorGraph& g = model.graph;
    for (const GraphOp& op : g.ops()) {
      if (op.name == "norm 1") {
        EXPECT_EQ(g.tensor(op.inputs[0]).consumers.size(), 2u);
      }
    }
  }
}

// GPT: 12 h^2 weights, 4 h of two norms, 9 h of biases (3 h of qkv, h, 4 h, h) a block. Llama: 2
// h^2 of query and projection, 2 h h/4 of keys and values, 3 h f, two norms.
TEST(TransformerGraphTest, Parameters) {
  const auto count = [](const TransformerConfig& c, bool block) {
    const TransformerGraph model = MakeTransformerGraph(c);
    return Parameters(model.graph, BindTransformer(model, c, {}), block);
  };
  const int64_t h = 1024;
  EXPECT_EQ(count(Gpt(), true), 12 * h * h + 13 * h);
  EXPECT_EQ(count(Llama(), true), 2 * h * h + 2 * h * h / 4 + 3 * h * 3072 + 2 * h);
  // Two tables of vocabulary x h, 512 positions, and the final norm.
  EXPECT_EQ(count(Gpt(), false), 2 * 2048 * h + 512 * h + 2 * h);
}

// Feed-forward layers beside attention read what the block is given, by attention's norm or their
// own; norms after both add h of weights each.
TEST(TransformerGraphTest, BesideAttentionAndNormsAfter) {
  const auto find = [](const OperatorGraph& g, std::string_view name) {
    for (const GraphOp& op : g.ops()) {
      if (op.name == name) return op;
    }
    return GraphOp();
  };
  TransformerConfig c = Llama();
  const auto weights = [&] {
    const TransformerGraph model = MakeTransformerGraph(c);
    EXPECT_TRUE(model.graph.Validate().ok()) << model.graph.Validate();
    return Parameters(model.graph, BindTransformer(model, c, {}), true);
  };
  const int64_t h = 1024, plain = weights();
  c.parallel_norms = 2;
  EXPECT_EQ(weights(), plain);
  const OperatorGraph own = MakeTransformerGraph(c).graph;
  EXPECT_EQ(find(own, "norm 2").inputs[0], find(own, "norm 1").inputs[0]);
  EXPECT_EQ(find(own, "ffn residual").inputs[1], find(own, "attention residual").outputs[0]);
  c.parallel_norms = 1;
  EXPECT_EQ(weights(), plain - h);
  const OperatorGraph shared = MakeTransformerGraph(c).graph;
  EXPECT_EQ(find(shared, "ffn up").inputs[0], find(shared, "norm 1").outputs[0]);
  c.parallel_norms = 0;
  c.post_norms = true;
  EXPECT_EQ(weights(), plain + 2 * h);
  const OperatorGraph after = MakeTransformerGraph(c).graph;
  EXPECT_EQ(find(after, "ffn post norm").inputs[0], find(after, "ffn down").outputs[0]);
}

// Megatron-LM's count (Narayanan et al., 2021, section 5): 24 b s l h^2 + 4 b s^2 l h forward for
// GEMMs and attention, 2 b s h V for the output layer.
TEST(TransformerGraphTest, ModelFlop) {
  const TransformerConfig c = Gpt();
  const TransformerGraph model = MakeTransformerGraph(c);
  const double h = 1024, s = 512, b = 2;
  TransformerShares shares;
  shares.micro_batch = 2;
  EXPECT_DOUBLE_EQ(GemmFlop(model.graph, BindTransformer(model, c, shares), c.layers).count(),
                   4 * (24 * b * s * h * h + 4 * b * s * s * h) + 2 * b * s * h * 2048);
}

// Korthikanti et al. (2022), table 2: s b h (10 + 24/t + 5 a s / (h t)) bytes, all divided under
// sequence parallelism; 5 a s / (h t) of it written in the attention core; 2 s b h enters.
TEST(TransformerGraphTest, StashIsKorthikantis) {
  const TransformerConfig c = Gpt();
  const TransformerGraph model = MakeTransformerGraph(c);
  const double sbh = 512.0 * 2 * 1024, matrix = 5.0 * 16 * 512 / 1024;
  TransformerShares shares;
  shares.micro_batch = 2;
  shares.tensor = 4;
  Stash stash = StashOfBlock(model.graph, BindTransformer(model, c, shares));
  EXPECT_DOUBLE_EQ(Num(stash.whole.count()), sbh * (10 + 24 / 4.0 + matrix / 4));
  EXPECT_DOUBLE_EQ(Num(stash.attention.count()), sbh * matrix / 4);
  EXPECT_DOUBLE_EQ(Num(stash.input.count()), sbh * 2);
  shares.sequence_parallel = true;
  stash = StashOfBlock(model.graph, BindTransformer(model, c, shares));
  EXPECT_DOUBLE_EQ(Num(stash.whole.count()), sbh * (34 + matrix) / 4);
  EXPECT_DOUBLE_EQ(Num(stash.input.count()), sbh * 2 / 4);
}

// A gated layer's GEMMs one by one: q, k, v, projection, gate, up, down. The first, third, fifth
// and seventh have 1,024, 256, 3,072 and 1,024 columns; nothing that backward reads follows from
// the last. Of 512 tokens in two bytes.
TEST(TransformerGraphTest, EverySecondGemm) {
  const TransformerConfig c = Llama();
  const TransformerGraph model = MakeTransformerGraph(c);
  const AlternateGemms gemms = EverySecondGemm(model.graph, BindTransformer(model, c, {}));
  EXPECT_EQ(gemms.outputs, Bytes(512 * 2 * (1024 + 256 + 3072 + 1024)));
  EXPECT_EQ(gemms.needed, Bytes(512 * 2 * (1024 + 256 + 3072)));
  const auto share = [&](std::string_view name) {
    for (size_t i = 0; i < model.graph.ops().size(); ++i) {
      if (model.graph.ops()[i].name == name) return gemms.share[i];
    }
    return -1.0;
  };
  EXPECT_DOUBLE_EQ(share("qkv"), (1024.0 + 256) / (1024 + 2 * 256));
  EXPECT_EQ(share("projection"), 0);
  EXPECT_EQ(share("ffn up"), 0.5);
  EXPECT_EQ(share("ffn down"), 1);
}

// A fused loss reads the logits of two bytes twice forward, once backward, and writes their
// gradient; it keeps them instead of a result in 32 bits.
TEST(TransformerGraphTest, FusedLoss) {
  TransformerConfig c = Gpt();
  c.loss = LossForm::kFused;
  const TransformerGraph model = MakeTransformerGraph(c);
  const Binding sizes = BindTransformer(model, c, {});
  const OpId loss = static_cast<OpId>(model.graph.ops().size()) - 1;
  const GraphOp& op = model.graph.op(loss);
  EXPECT_EQ(KeptBy(op)[0], op.inputs[0]);
  const int64_t logits = 512 * 2048 * 2;
  int64_t read = 0;
  for (const KernelWork& work : ForwardWork(model.graph, sizes, loss)) read += work.read.count();
  EXPECT_EQ(read, 2 * logits);
  const BackwardWork back = Differentiate(model.graph, sizes, loss);
  ASSERT_EQ(back.input.size(), 1u);
  EXPECT_EQ(back.input[0].read, Bytes(logits));
  EXPECT_EQ(back.input[0].written, Bytes(logits));
}

OpId Find(const OperatorGraph& g, std::string_view name) {
  for (OpId i = 0; static_cast<size_t>(i) < g.ops().size(); ++i) {
    if (g.op(i).name == name) return i;
  }
  ADD_FAILURE() << name;
  return 0;
}

// Sharded GEMMs: m is all tokens of the micro-batch, whatever the stream's share of them.
TEST(TransformerGraphTest, ShardedGemms) {
  const TransformerConfig c = Llama();
  const TransformerGraph model = MakeTransformerGraph(c);
  TransformerShares shares;
  shares.tensor = 2;
  shares.sequence_parallel = true;
  const Binding sizes = BindTransformer(model, c, shares);
  const auto gemm = [&](std::string_view name) {
    const KernelList list = ForwardWork(model.graph, sizes, Find(model.graph, name));
    return std::array<int64_t, 3>{list[0].m, list[0].n, list[0].k};
  };
  using Sizes = std::array<int64_t, 3>;
  EXPECT_EQ(gemm("qkv"), (Sizes{512, (1024 + 2 * 256) / 2, 1024}));
  EXPECT_EQ(gemm("projection"), (Sizes{512, 1024, 512}));
  EXPECT_EQ(gemm("ffn up"), (Sizes{512, 3072, 1024}));
  EXPECT_EQ(gemm("ffn down"), (Sizes{512, 1024, 1536}));
  EXPECT_EQ(gemm("output layer"), (Sizes{512, 1024, 1024}));
  // Backward: the input's gradient and the weights', with the two gradients of the norm's input
  // (the residual's and its own) added up there.
  const BackwardWork qkv = Differentiate(model.graph, sizes, Find(model.graph, "qkv"));
  ASSERT_EQ(qkv.input.size(), 1u);
  ASSERT_EQ(qkv.weights.size(), 1u);
  EXPECT_EQ(qkv.input[0].n, 1024);
  EXPECT_EQ(qkv.weights[0].k, 512);
  const BackwardWork norm = Differentiate(model.graph, sizes, Find(model.graph, "norm 1"));
  ASSERT_EQ(norm.input.size(), 3u);
  EXPECT_EQ(norm.input[0].read, Bytes(2 * 2 * 256 * 1024));
  // The gated activation reads both halves, 2 f, and writes f; backward the reverse and what it
  // kept.
  const OpId act = Find(model.graph, "activation");
  const KernelList forward = ForwardWork(model.graph, sizes, act);
  EXPECT_EQ(forward[0].read, Bytes(2 * 512 * 3072));
  EXPECT_EQ(forward[0].written, Bytes(2 * 512 * 1536));
  const BackwardWork backward = Differentiate(model.graph, sizes, act);
  EXPECT_EQ(backward.input[0].read, Bytes(2 * 512 * (1536 + 3072)));
  EXPECT_EQ(backward.input[0].written, Bytes(2 * 512 * 3072));
}

// Two of eight experts a token, four expert-parallel ranks: two local experts share 1,024 routed
// tokens.
TEST(TransformerGraphTest, Experts) {
  TransformerConfig c = Llama();
  c.experts = 8;
  c.top_k = 2;
  const TransformerGraph model = MakeTransformerGraph(c);
  EXPECT_TRUE(model.graph.Validate().ok()) << model.graph.Validate();
  TransformerShares shares;
  shares.expert = 4;
  const Binding sizes = BindTransformer(model, c, shares);
  const KernelList up = ForwardWork(model.graph, sizes, Find(model.graph, "ffn up"));
  EXPECT_EQ(up[0].batch, 2);
  EXPECT_EQ(up[0].m, 512);
  EXPECT_EQ(up[0].n, 2 * 3072);
  EXPECT_EQ(up[0].k, 1024);
  // Each local expert's weights are read once.
  EXPECT_EQ(up[0].read, Bytes(2 * 2 * (512 * 1024 + 1024 * 6144)));
}

// The loss runs in 32 bits: 2 + 4 bytes for the cast, 4 + 4 for the rows; backward 8 + 4, 4 + 2.
TEST(TransformerGraphTest, LossIsIn32Bits) {
  const TransformerConfig c = Llama();
  const TransformerGraph model = MakeTransformerGraph(c);
  const Binding sizes = BindTransformer(model, c, {});
  const OpId loss = Find(model.graph, "loss");
  const auto bytes = [](const KernelList& list) {
    int64_t sum = 0;
    for (const KernelWork& work : list) sum += work.total_bytes();
    return sum;
  };
  const int64_t logits = 512 * 2048;
  EXPECT_EQ(bytes(ForwardWork(model.graph, sizes, loss)), 14 * logits);
  EXPECT_EQ(bytes(Differentiate(model.graph, sizes, loss).input), 18 * logits);
}

}  // namespace
}  // namespace foretrace
