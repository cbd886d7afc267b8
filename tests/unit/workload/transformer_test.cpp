#include "simulator/workload/transformer.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "simulator/workload/workload_yaml.h"

namespace foretrace {
namespace {

TransformerConfig Gpt(int64_t hidden, int64_t layers, int64_t heads) {
  TransformerConfig c;
  c.hidden = hidden;
  c.layers = layers;
  c.heads = heads;
  c.vocabulary = 51200;
  c.sequence = 2048;
  return c;
}

Workload Build(const TransformerConfig& c) {
  auto w = BuildTransformer(c);
  EXPECT_TRUE(w.ok()) << w.status();
  return *std::move(w);
}

// Narayanan et al., "Efficient large-scale language model training on GPU clusters using
// Megatron-LM" (2021), table 1: billions of parameters by hidden size, layers, heads.
TEST(TransformerTest, MegatronParameterCounts) {
  struct Row {
    int64_t hidden, layers, heads;
    double billions;
  };
  for (const Row& r : {Row{2304, 24, 24, 1.7}, Row{3072, 30, 32, 3.6}, Row{4096, 36, 32, 7.5},
                       Row{6144, 40, 48, 18.4}, Row{8192, 48, 64, 39.1}, Row{10240, 60, 80, 76.1},
                       Row{12288, 80, 96, 145.6}, Row{16384, 96, 128, 310.1},
                       Row{20480, 105, 128, 529.6}, Row{25600, 128, 160, 1008.0}}) {
    const Workload w = Build(Gpt(r.hidden, r.layers, r.heads));
    EXPECT_NEAR(static_cast<double>(w.ParameterCount()) * 1e-9, r.billions, 0.051) << r.hidden;
  }
  // 22B and 175B of Korthikanti et al. (2022), table 3.
  EXPECT_NEAR(static_cast<double>(Build(Gpt(6144, 48, 64)).ParameterCount()) * 1e-9, 22.0, 0.1);
  EXPECT_NEAR(static_cast<double>(Build(Gpt(12288, 96, 96)).ParameterCount()) * 1e-9, 175.0, 0.5);
}

// Narayanan et al., equation 2: P = 12 l h^2 (1 + 13/(12 h) + (V + s)/(12 l h)), which leaves out
// the 2 h parameters of the last norm; appendix: model FLOP = 72 B s l h^2 (1 + s/(6 h) + V/(12 l
// h)).
TEST(TransformerTest, MegatronClosedForms) {
  for (const auto& c : {Gpt(6144, 48, 64), Gpt(12288, 96, 96), Gpt(25600, 128, 160)}) {
    const Workload w = Build(c);
    const int64_t h = c.hidden, l = c.layers, v = c.vocabulary, s = c.sequence;
    EXPECT_EQ(w.ParameterCount(), 12 * l * h * h + 13 * l * h + (v + s) * h + 2 * h);
    const double hd = static_cast<double>(h), ld = static_cast<double>(l);
    const double flop = 72.0 * 2048 * ld * hd * hd * (1 + 2048 / (6 * hd) + 51200 / (12 * ld * hd));
    EXPECT_NEAR(w.ModelFlop().count() / flop, 1, 1e-12);
  }
}

// Korthikanti et al. (2022), equations 1 and 2: one layer keeps s b h (34 + 5 a s / h) bytes; with
// tensor parallelism t, s b h (10 + 24/t + 5 a s / (h t)).
TEST(TransformerTest, MegatronActivationBytes) {
  const TransformerConfig c = Gpt(12288, 1, 96);
  const Workload w = Build(c);
  Bytes tensor, sequence, selective;
  for (const Operator& op : w.operators) {
    if (op.block != 0) continue;
    tensor += op.stash_tensor;
    sequence += op.stash_sequence;
    selective += op.stash_selective;
  }
  const int64_t sh = c.sequence * c.hidden;
  EXPECT_EQ(selective.count(), 5 * c.heads * c.sequence * c.sequence);
  EXPECT_EQ(sequence.count(), 10 * sh);
  EXPECT_EQ(tensor.count(), 24 * sh + selective.count());
}

// Parameter counts of the released checkpoints.
TEST(TransformerTest, LlamaParameterCounts) {
  TransformerConfig c;
  c.family = TransformerFamily::kLlama;
  c.hidden = 4096;
  c.layers = 32;
  c.heads = 32;
  c.ffn = 11008;
  c.vocabulary = 32000;
  c.sequence = 4096;
  EXPECT_EQ(Build(c).ParameterCount(), 6'738'415'616);
  c.hidden = 8192;
  c.layers = 80;
  c.heads = 64;
  c.kv_heads = 8;
  c.ffn = 28672;
  EXPECT_EQ(Build(c).ParameterCount(), 68'976'648'192);
}

TEST(TransformerTest, MixtralTotalAndActiveParameters) {
  TransformerConfig c;
  c.family = TransformerFamily::kLlama;
  c.hidden = 4096;
  c.layers = 32;
  c.heads = 32;
  c.kv_heads = 8;
  c.ffn = 14336;
  c.vocabulary = 32000;
  c.sequence = 4096;
  c.experts = 8;
  c.top_k = 2;
  EXPECT_EQ(Build(c).ParameterCount(), 46'702'792'704);
  EXPECT_EQ(Build(c).ActiveParameterCount(), 12'879'925'248);
}

TEST(TransformerTest, BertAndT5ParameterCounts) {
  TransformerConfig bert;
  bert.family = TransformerFamily::kBert;
  bert.hidden = 768;
  bert.layers = 12;
  bert.heads = 12;
  bert.vocabulary = 30522;
  bert.sequence = 512;
  EXPECT_EQ(Build(bert).ParameterCount(), 109'482'240);  // bert-base-uncased
  bert.hidden = 1024;
  bert.layers = 24;
  bert.heads = 16;
  EXPECT_EQ(Build(bert).ParameterCount(), 335'141'888);  // bert-large-uncased
  TransformerConfig t5;
  t5.family = TransformerFamily::kT5;
  t5.hidden = 768;
  t5.layers = t5.decoder_layers = 12;
  t5.heads = 12;
  t5.ffn = 3072;
  t5.vocabulary = 32128;
  t5.sequence = 512;
  EXPECT_EQ(Build(t5).ParameterCount(), 222'903'552);  // t5-base
}

TEST(TransformerTest, BadSizesAreNamed) {
  TransformerConfig c = Gpt(1024, 2, 16);
  c.kv_heads = 3;
  EXPECT_THAT(BuildTransformer(c).status().message(), testing::HasSubstr("kv_heads 3"));
  c = Gpt(0, 2, 16);
  EXPECT_THAT(BuildTransformer(c).status().message(), testing::HasSubstr("hidden"));
  c = Gpt(1024, 2, 16);
  c.top_k = 2;
  EXPECT_THAT(BuildTransformer(c).status().message(), testing::HasSubstr("top_k"));
  c = Gpt(1 << 24, 100000, 1 << 10);
  EXPECT_FALSE(BuildTransformer(c).ok());
}

double ForwardFlop(const TransformerConfig& c) { return Build(c).ForwardFlop().count(); }

// Of s tokens by hand, a multiply-add as two: GEMMs of h by w take 2 s h w, scores and sums of
// values 2 s^2 w each.
TEST(TransformerTest, ForwardFlopByHand) {
  constexpr double s = 2048, v = 51200;
  // Four key heads of 16: keys and values of 2048 / 4. Gated: three GEMMs of 8192.
  TransformerConfig gqa = Gpt(2048, 3, 16);
  gqa.family = TransformerFamily::kLlama;
  gqa.kv_heads = 4;
  const double attention = 2 * s * 2048 * (2 * 2048 + 2 * 512) + 4 * s * s * 2048;
  EXPECT_DOUBLE_EQ(ForwardFlop(gqa), 3 * (attention + 2 * s * 3 * 2048 * 8192) + 2 * s * 2048 * v);
  // Two of eight experts, and the router's GEMM.
  TransformerConfig experts = Gpt(1024, 3, 16);
  experts.experts = 8;
  experts.top_k = 2;
  const double plain = 2 * s * 4 * 1024 * 1024 + 4 * s * s * 1024;
  EXPECT_DOUBLE_EQ(ForwardFlop(experts),
                   3 * (plain + 2 * s * 1024 * 8 + 2 * 2 * s * 2 * 1024 * 4096) + 2 * s * 1024 * v);
  // Every layer of the decoder attends twice, with as many GEMMs.
  TransformerConfig t5 = Gpt(1024, 4, 16);
  t5.family = TransformerFamily::kT5;
  t5.decoder_layers = 3;
  EXPECT_DOUBLE_EQ(ForwardFlop(t5),
                   7 * (plain + 2 * s * 2 * 1024 * 4096) + 3 * plain + 2 * s * 1024 * v);
  // The pooler sees one token.
  TransformerConfig bert = Gpt(1024, 3, 16);
  bert.family = TransformerFamily::kBert;
  EXPECT_DOUBLE_EQ(ForwardFlop(bert),
                   3 * (plain + 2 * s * 2 * 1024 * 4096) + 2 * 1024.0 * 1024 + 2 * s * 1024 * v);
}

// Experts of latents: up and down 2 x 256 x 4,096 each, of which a token has two; the GEMMs that
// make a latent of a token and a token of it, 2 x 1,024 x 256; shared ones and the router as
// before.
TEST(TransformerTest, ExpertsOfLatents) {
  constexpr double s = 2048;
  TransformerConfig c = Gpt(1024, 1, 16);
  c.biases = false;
  c.experts = 8;
  c.top_k = 2;
  c.shared_ffn = 512;
  const Workload plain = Build(c);
  c.expert_latent = 256;
  const Workload latent = Build(c);
  EXPECT_EQ(plain.ParameterCount() - latent.ParameterCount(),
            8 * 2 * (1024 - 256) * 4096 - 2 * 1024 * 256);
  EXPECT_EQ(plain.ActiveParameterCount() - latent.ActiveParameterCount(),
            2 * 2 * (1024 - 256) * 4096 - 2 * 1024 * 256);
  EXPECT_DOUBLE_EQ(plain.ForwardFlop().count() - latent.ForwardFlop().count(),
                   2 * s * (2 * 2 * (1024 - 256) * 4096 - 2 * 1024 * 256));
  c.experts = c.top_k = c.shared_ffn = 0;
  EXPECT_THAT(BuildTransformer(c).status().message(), testing::HasSubstr("expert_latent 256"));
}

// What the decoder's layers attend to besides themselves comes from the encoder's last norm.
TEST(TransformerTest, DecodersReadTheEncoder) {
  TransformerConfig t5 = Gpt(1024, 2, 16);
  t5.family = TransformerFamily::kT5;
  t5.decoder_layers = 2;
  const Workload w = Build(t5);
  std::vector<std::string> readers;
  for (const OperatorEdge& e : w.edges) {
    if (w.operators[static_cast<size_t>(e.from)].name == "encoder final norm") {
      readers.push_back(w.operators[static_cast<size_t>(e.to)].name);
    }
  }
  EXPECT_THAT(readers,
              testing::ElementsAre("block 2 cross key and value", "block 3 cross key and value"));
}

// Megatron-LM's divisions (Shoeybi et al., 2019, section 3): GEMMs by columns, whose inputs'
// gradients are summed, then by rows, whose results are.
TEST(TransformerTest, TensorParallelDivisions) {
  TransformerConfig c = Gpt(2048, 1, 16);
  c.kv_heads = 4;
  const Workload w = Build(c);
  const auto find = [&](std::string_view name) {
    const auto it = std::ranges::find_if(w.operators, [&](const Operator& op) {
      return op.name == name || op.name == "block 0 " + std::string(name);
    });
    EXPECT_NE(it, w.operators.end()) << name;
    return *it;
  };
  for (const char* name : {"qkv", "projection"}) EXPECT_EQ(find(name).tensor_ways, 4) << name;
  for (const char* name : {"ffn up", "activation", "ffn down"}) {
    EXPECT_EQ(find(name).tensor_ways, 8192) << name;
  }
  for (const char* name : {"embedding", "output layer", "loss"}) {
    EXPECT_EQ(find(name).tensor_ways, 0) << name;
  }
  for (const char* name : {"norm 1", "norm 2", "ffn residual"}) {
    EXPECT_EQ(find(name).tensor_ways, 1) << name;
  }
  for (const Operator& op : w.operators) {
    const bool sums =
        op.name == "embedding" || op.name.ends_with("projection") || op.name.ends_with("ffn down");
    const bool begins =
        op.name == "output layer" || op.name.ends_with("qkv") || op.name.ends_with("ffn up");
    EXPECT_EQ(op.reduces_output, sums) << op.name;
    EXPECT_EQ(op.reduces_gradient, begins) << op.name;
  }
}

// Of one sample, two bytes an element: a GEMM reads its input and writes its result, backward it
// reads both and the result's gradient, and writes the input's; weights are not of a sample.
TEST(TransformerTest, TrafficOfActivationsAlone) {
  TransformerConfig c = Gpt(1024, 1, 16);
  c.biases = false;
  const Workload w = Build(c);
  for (const Operator& op : w.operators) {
    if (!op.name.ends_with("ffn up")) continue;
    constexpr int64_t kIn = 2048 * 1024 * 2, kOut = 2048 * 4096 * 2;
    EXPECT_EQ(op.forward_bytes.count(), kIn + kOut);
    EXPECT_EQ(op.output_bytes.count(), kOut);
    EXPECT_EQ(op.backward_bytes.count(), 2 * kIn + 2 * kOut);
  }
}

TEST(WorkloadYamlTest, TransformerRoundTrip) {
  const auto w = ParseWorkload(
      "name: gpt3\ntransformer: {family: gpt, hidden: 12288, layers: 96, heads: 96, "
      "vocabulary: 51200, sequence: 2048}\n",
      "t.yaml");
  ASSERT_TRUE(w.ok()) << w.status();
  EXPECT_EQ(w->name, "gpt3");
  EXPECT_EQ(w->ParameterCount(), Build(Gpt(12288, 96, 96)).ParameterCount());
}

TEST(WorkloadYamlTest, Graph) {
  const auto w = ParseWorkload(R"(
graph:
  operators:
    - {name: a, forward_flop: 1e9, output_bytes: 8}
    - {name: b, parameters: 5}
  edges: [[a, b], ]
)",
                               "g.yaml");
  ASSERT_TRUE(w.ok()) << w.status();
  ASSERT_EQ(w->edges.size(), 1u);
  EXPECT_EQ(w->edges[0].bytes, Bytes(8));
  EXPECT_EQ(w->operators[1].parameters, 5);
}

TEST(WorkloadYamlTest, ErrorsNameTheFault) {
  const auto message = [](const std::string& text) {
    const auto w = ParseWorkload(text, "w.yaml");
    return w.ok() ? std::string("ok") : std::string(w.status().message());
  };
  EXPECT_THAT(message("transformer: {hiden: 4}"), testing::HasSubstr("unknown key 'hiden'"));
  EXPECT_THAT(message("nonsense: 4"), testing::HasSubstr("unknown key 'nonsense'"));
  EXPECT_THAT(message("[1, 2"), testing::HasSubstr("w.yaml:1: not valid YAML"));
  EXPECT_THAT(message(""), testing::HasSubstr("must be a map"));
  EXPECT_THAT(message(std::string(100000, '[')), testing::HasSubstr("nested"));
  EXPECT_THAT(message("graph: {operators: [{name: a}, {name: b}], edges: [[b, a]]}"),
              testing::HasSubstr("goes backward"));
  EXPECT_THAT(message("graph: {operators: [{name: a}], edges: [[a, z]]}"),
              testing::HasSubstr("not listed"));
  EXPECT_THAT(message("graph: {operators: [{name: a, parameters: -3}]}"),
              testing::HasSubstr("negative"));
  EXPECT_THAT(message("transformer: {hidden: .nan}"), testing::HasSubstr("not a number"));
  EXPECT_THAT(message("mmt: {}\ndlrm: {}"), testing::HasSubstr("second model"));
}

}  // namespace
}  // namespace foretrace
