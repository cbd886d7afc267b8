#include "simulator/workload/transformer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "simulator/cost/operator/kernel_work.h"
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

TEST(TransformerTest, CoarseningKeepsTotals) {
  const Workload w = Build(Gpt(1024, 6, 16));
  const Workload coarse = CoarsenByBlock(w);
  ASSERT_TRUE(coarse.Validate().ok()) << coarse.Validate();
  EXPECT_EQ(coarse.operators.size(), 6u + 4u);  // embedding, blocks, norm, output, loss
  EXPECT_EQ(coarse.ParameterCount(), w.ParameterCount());
  EXPECT_DOUBLE_EQ(coarse.ModelFlop().count(), w.ModelFlop().count());
  EXPECT_EQ(coarse.edges.size(), 9u);
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

// The layer graph's closed forms against what its operators' shapes come to: FLOP of products and
// attention, forward, but for biases and softmax.
TEST(TransformerTest, ClosedFormsAreThoseOfTheShapes) {
  TransformerConfig t5 = Gpt(1024, 4, 16);
  t5.family = TransformerFamily::kT5;
  t5.decoder_layers = 3;
  TransformerConfig gqa = Gpt(2048, 3, 16);
  gqa.family = TransformerFamily::kLlama;
  gqa.kv_heads = 4;
  TransformerConfig experts = Gpt(1024, 3, 16);
  experts.experts = 8;
  experts.top_k = 2;
  TransformerConfig bert = Gpt(1024, 3, 16);
  bert.family = TransformerFamily::kBert;
  for (const TransformerConfig& c : {Gpt(1024, 3, 16), t5, gqa, experts, bert}) {
    const Workload w = Build(c);
    for (const Operator& op : w.operators) {
      ASSERT_EQ(op.calls.size(), 1U) << op.name;
      if (op.forward_flop == Flop()) continue;
      const double shapes = TotalWork(op.calls.front()).flop.count();
      // Softmax adds 6 FLOP a score to 4 of each of a head's 64 or 128 sizes.
      const double more = op.kind == OperatorKind::kAttention ? 6.0 / (4 * 64) : 1e-3;
      EXPECT_NEAR(shapes / op.forward_flop.count(), 1, more * 1.0001) << op.name;
    }
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
