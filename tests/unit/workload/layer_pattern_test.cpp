// Models each of whose layers is one part, and their mixers, by hand.
#include "simulator/workload/layer_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "simulator/graph/differentiate.h"
#include "simulator/graph/shard.h"
#include "simulator/workload/transformer_graph.h"
#include "simulator/workload/workload_yaml.h"
#include "tests/support/hybrid_model.h"

namespace foretrace {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kHidden = 256, kInputs = 512, kReaders = 128, kHeads = 16, kTokens = 64;

TransformerGraph GraphOfKind(const TransformerConfig& c, LayerPart part) {
  for (size_t kind = 0; kind < LayerKinds(c); ++kind) {
    const TransformerConfig own = WithLayerKind(c, kind);
    if (PartOf(own) == part) return MakeTransformerGraph(own);
  }
  return MakeTransformerGraph(c);
}

int64_t WeightsOf(LayerPart part, const TransformerConfig& c = HybridModel("M-M*PP-", 7)) {
  const TransformerGraph model = GraphOfKind(c, part);
  EXPECT_TRUE(model.graph.Validate().ok()) << model.graph.Validate();
  return Parameters(model.graph, BindTransformer(model, c, {}), true);
}

// A norm of h each. Mixer: to gate and input (2 X), what writes and reads (2 B) and steps (H); four
// taps and a bias of all but gate and steps; decay, skip and bias of each head; a norm of X; back.
// Attention: 8 heads of queries, 2 of keys and of values, 32 each. Feed-forward: two matrices.
TEST(LayerPatternTest, Parameters) {
  const int64_t h = kHidden;
  EXPECT_EQ(WeightsOf(LayerPart::kMixer), h + h * (2 * kInputs + 2 * kReaders + kHeads) +
                                              5 * (kInputs + 2 * kReaders) + 3 * kHeads + kInputs +
                                              kInputs * h);
  EXPECT_EQ(WeightsOf(LayerPart::kAttention), h + h * 32 * (8 + 2 + 2) + 8 * 32 * h);
  EXPECT_EQ(WeightsOf(LayerPart::kFeedForward), h + 2 * h * 1024);
}

// Attention and a mixer side by side have one norm; a mixer without a norm of its own X fewer.
TEST(LayerPatternTest, ParallelParameters) {
  EXPECT_EQ(WeightsOf(LayerPart::kParallel),
            WeightsOf(LayerPart::kMixer) + WeightsOf(LayerPart::kAttention) - kHidden);
  TransformerConfig c = HybridModel();
  c.state_norm = false;
  EXPECT_EQ(WeightsOf(LayerPart::kMixer) - WeightsOf(LayerPart::kMixer, c), kInputs);
}

// Both branches' GEMMs; kept are the layer's input and its norm once, and of either what it keeps
// beyond these (the mixer's without its own norm: 4 X + 2 B + H; attention's q, k, v and context).
TEST(LayerPatternTest, ParallelFlopAndStash) {
  TransformerConfig c = HybridModel("P-P-M*", 6);
  c.state_norm = false;
  const auto of = [&](LayerPart part) {
    const TransformerGraph model = GraphOfKind(c, part);
    const Binding sizes = BindTransformer(model, c, {});
    return std::pair(
        GemmFlop(model.graph, sizes, 1).count() - GemmFlop(model.graph, sizes, 0).count(),
        StashOfBlock(model.graph, sizes).whole.count());
  };
  const auto both = of(LayerPart::kParallel), mixer = of(LayerPart::kMixer),
             attention = of(LayerPart::kAttention);
  EXPECT_EQ(both.first, mixer.first + attention.first);
  EXPECT_EQ(both.second, mixer.second + attention.second - 2 * kTokens * 2 * kHidden);
  EXPECT_EQ(mixer.second, 2 * kTokens * (2 * kHidden + 4 * kInputs + 2 * kReaders + kHeads));
}

// A gated delta net: a norm; to gate and values (2 X), keys and queries (2 B), decays and step
// sizes (2 H); four taps of all but gate and these; decay and bias of each head; a norm of a head's
// 32 elements; back. Attention with a gate has as many weights more as queries.
TEST(LayerPatternTest, DeltaParameters) {
  const TransformerConfig c = DeltaModel();
  EXPECT_EQ(WeightsOf(LayerPart::kDelta, c),
            kHidden + kHidden * (2 * kInputs + 2 * kReaders + 2 * kHeads) +
                4 * (kInputs + 2 * kReaders) + 2 * kHeads + 32 + kInputs * kHidden);
  EXPECT_EQ(WeightsOf(LayerPart::kAttention, c) - WeightsOf(LayerPart::kAttention),
            kHidden * 8 * 32);
}

// GEMMs in and back, and the rule's (delta_rule_test.cpp). Kept of each token, in 2 bytes: the
// layer's input and its norm (2 h); all that is projected (2 X + 2 B + 2 H); values behind the
// convolution (X), keys and queries normalised (2 B) and repeated for each head of values (2 x 16 x
// 32), the inverse (16 x 16); the result, its norm and that times the gate (3 X).
TEST(LayerPatternTest, DeltaFlopAndStash) {
  const TransformerConfig c = DeltaModel();
  const TransformerGraph model = GraphOfKind(c, LayerPart::kDelta);
  const Binding sizes = BindTransformer(model, c, {});
  const double gemms = kHidden * (2 * kInputs + 2 * kReaders + 2 * kHeads) + kInputs * kHidden;
  const double rule = 16 * (16 * 32 + 16 * 64 + 2 * 32 * 32 + 32 * 32 + 2 * 16 * 32);
  EXPECT_EQ(GemmFlop(model.graph, sizes, 1).count() - GemmFlop(model.graph, sizes, 0).count(),
            2 * kTokens * (gemms + rule));
  const int64_t divided = 2 * kInputs + 2 * kReaders + 2 * kHeads + kInputs + 2 * kReaders +
                          2 * 16 * 32 + 16 * 16 + 3 * kInputs;
  EXPECT_EQ(StashOfBlock(model.graph, sizes).whole.count(), 2 * kTokens * (2 * kHidden + divided));
  TransformerShares two;
  two.tensor = 2;
  EXPECT_EQ(StashOfBlock(model.graph, BindTransformer(model, c, two)).whole.count(),
            2 * kTokens * (2 * kHidden + divided / 2));
}

// GEMMs in and back, and the scan's (state_scan_test.cpp): states of 32, chunks of 16.
TEST(LayerPatternTest, FlopOfAMixer) {
  const TransformerConfig c = HybridModel();
  const TransformerGraph model = GraphOfKind(c, LayerPart::kMixer);
  const Binding sizes = BindTransformer(model, c, {});
  const double outside = GemmFlop(model.graph, sizes, 0).count();
  const double gemms = kHidden * (2 * kInputs + 2 * kReaders + kHeads) + kInputs * kHidden;
  const double scan = kInputs * (32 + 32 + 16) + 4 * 16 * 32;
  EXPECT_EQ(GemmFlop(model.graph, sizes, 1).count() - outside, 2 * kTokens * (gemms + scan));
}

// Kept of each token, in 2 bytes: the layer's input and its norm (2 h), all that is projected (2 X
// + 2 B + H), the scan's result before the gate, behind it, and its norm (3 X). Of two devices each
// has half of all but the first, and of that half with sequence parallelism.
TEST(LayerPatternTest, StashOfAMixer) {
  const TransformerConfig c = HybridModel();
  const TransformerGraph model = GraphOfKind(c, LayerPart::kMixer);
  const auto stash = [&](const TransformerShares& shares) {
    return StashOfBlock(model.graph, BindTransformer(model, c, shares)).whole.count();
  };
  const int64_t divided = 5 * kInputs + 2 * kReaders + kHeads;
  TransformerShares two;
  two.tensor = 2;
  EXPECT_EQ(stash({}), 2 * kTokens * (2 * kHidden + divided));
  EXPECT_EQ(stash(two), 2 * kTokens * (2 * kHidden + divided / 2));
  two.sequence_parallel = true;
  EXPECT_EQ(stash(two), 2 * kTokens * (2 * kHidden + divided) / 2);
}

// As of attention: tokens are gathered before the first GEMM, sums scattered after the last, and
// nothing is exchanged between them.
TEST(LayerPatternTest, ExchangesOfAMixer) {
  const TransformerConfig c = HybridModel();
  const TransformerGraph model = GraphOfKind(c, LayerPart::kMixer);
  TransformerShares two;
  two.tensor = 2;
  two.sequence_parallel = true;
  const ShardedGraph sharded = ShardGraph(model.graph, DivisionOf(model, c, two));
  std::string exchanges;
  for (const PlacedExchange& e : sharded.exchanges) {
    const GraphOp& of = model.graph.op(e.of);
    if (of.in_block) exchanges += of.name + (e.after ? " after; " : " before; ");
  }
  EXPECT_EQ(exchanges, "mixer in before; mixer out after; ");
}

// Either branch is summed by itself, as its last GEMM is divided by rows.
TEST(LayerPatternTest, ExchangesOfParallelBranches) {
  const TransformerConfig c = HybridModel("P-", 2);
  const TransformerGraph model = GraphOfKind(c, LayerPart::kParallel);
  TransformerShares two;
  two.tensor = 2;
  const ShardedGraph sharded = ShardGraph(model.graph, DivisionOf(model, c, two));
  std::string sums;
  for (const PlacedExchange& e : sharded.exchanges) {
    const GraphOp& of = model.graph.op(e.of);
    if (of.in_block && e.after) sums += of.name + "; ";
  }
  EXPECT_EQ(sums, "projection; mixer out; ");
}

// Layers with experts are the first kind; then mixers, attention, dense layers.
TEST(LayerPatternTest, Kinds) {
  const TransformerConfig c = HybridModel("M-M*", 4), experts = HybridExperts();
  EXPECT_EQ(LayerKinds(c), 3u);
  EXPECT_EQ(LayerKinds(HybridModel("P-M*", 4)), 4u);
  EXPECT_EQ(LayersWith(HybridModel("P-M*P-", 6), LayerPart::kParallel), 2);
  EXPECT_EQ(LayersWith(HybridModel("P-M*P-", 6), LayerPart::kWhole), 0);
  EXPECT_EQ(LayersOfKindIn(c, 0), 2);
  EXPECT_EQ(PartOf(WithLayerKind(c, 0)), LayerPart::kMixer);
  EXPECT_EQ(LayerKindOf(c, 1), 2u);
  EXPECT_EQ(LayerKindOf(c, 3), 1u);
  EXPECT_EQ(PartOf(WithLayerKind(experts, 0)), LayerPart::kExperts);
  EXPECT_EQ(WithLayerKind(experts, 0).experts, 8);
  EXPECT_EQ(WithLayerKind(experts, 1).experts, 0);
  EXPECT_EQ(WithLayerKind(experts, 3).ffn, 2048);  // dense_ffn
  EXPECT_EQ(CommonestKind(experts), 0u);
  TransformerConfig cut = c;
  cut.layers = 3;
  CutPattern(cut);
  EXPECT_EQ(cut.pattern, "M-M");
  EXPECT_TRUE(CheckTransformer(cut).ok());
}

std::string ErrorOf(const TransformerConfig& c) {
  return std::string(CheckTransformer(WithDefaults(c)).message());
}

TEST(LayerPatternTest, Errors) {
  EXPECT_EQ(ErrorOf(HybridModel()), "");
  EXPECT_EQ(ErrorOf(HybridExperts()), "");
  TransformerConfig c = HybridModel("M-X*", 4);
  EXPECT_THAT(ErrorOf(c), HasSubstr("'X' in pattern is no layer"));
  c = HybridModel("M-M*", 5);
  EXPECT_THAT(ErrorOf(c), HasSubstr("pattern has 4 letters for 5 layers"));
  c = HybridModel();
  c.state_groups = 3;
  EXPECT_THAT(ErrorOf(c), HasSubstr("state_groups 3 do not divide the 16 state_heads"));
  c = HybridModel();
  c.state_size = 0;
  EXPECT_THAT(ErrorOf(c), HasSubstr("state_size 0"));
  c = HybridModel("-*", 2);
  EXPECT_THAT(ErrorOf(c), HasSubstr("state_heads 16"));
  c = HybridModel();
  c.state_bits = 8;
  EXPECT_THAT(ErrorOf(c), HasSubstr("state_bits 8"));
  c = HybridModel("-*", 2);
  c.state_heads = c.state_head_size = c.state_size = c.state_groups = 0;
  c.state_chunk = TransformerConfig().state_chunk;
  EXPECT_EQ(ErrorOf(c), "");
  c.state_norm = false;
  EXPECT_THAT(ErrorOf(c), HasSubstr("state_norm is of state-space mixers"));
  EXPECT_EQ(ErrorOf(DeltaModel()), "");
  EXPECT_THAT(ErrorOf(DeltaModel("G-M*")), HasSubstr("one of them would do"));
  c = DeltaModel();
  c.state_chunk = 128;
  EXPECT_THAT(ErrorOf(c), HasSubstr("state_chunk of 16, 32 or 64, not 128"));
  c = DeltaModel();
  c.shared_gate = true;
  EXPECT_THAT(ErrorOf(c), HasSubstr("shared_gate with shared_ffn"));
  c = HybridModel();
  c.window = 16;
  EXPECT_THAT(ErrorOf(c), HasSubstr("it goes with none of"));
  c = HybridModel("M-ME", 4);
  EXPECT_THAT(ErrorOf(c), HasSubstr("experts go with layers E"));
  c = HybridExperts();
  c.dense_ffn = 0;
  EXPECT_THAT(ErrorOf(c), HasSubstr("dense_ffn is the width of layers -"));
  c = HybridModel();
  c.further_tokens = 1;
  EXPECT_THAT(ErrorOf(c), HasSubstr("further_pattern ''; further_tokens of a model with"));
  c.further_pattern = "*E";
  EXPECT_THAT(ErrorOf(c), HasSubstr("further_pattern '*E'; further_tokens of a model with"));
  c.further_pattern = "*-";
  EXPECT_EQ(ErrorOf(c), "");
  c.further_tokens = 50'001;
  EXPECT_THAT(ErrorOf(c), HasSubstr("further_tokens 50001 have more than 100000 layers"));
  c.further_tokens = 0;
  EXPECT_THAT(ErrorOf(c), HasSubstr("further_pattern '*-'"));
}

// Modules for further tokens whose layers a cut model has none of are gone.
TEST(LayerPatternTest, CutModelsAndFurtherTokens) {
  TransformerConfig c = HybridModel("M-M*-M*-");
  c.further_tokens = 1;
  c.further_pattern = "*-";
  c.layers = 4;
  CutPattern(c);
  EXPECT_EQ(c.pattern, "M-M*");
  EXPECT_EQ(FurtherLayers(c), 2);
  EXPECT_EQ(ErrorOf(c), "");
  c.layers = 3;
  CutPattern(c);
  EXPECT_EQ(c.further_tokens, 0);
  EXPECT_EQ(ErrorOf(c), "");
}

TEST(LayerPatternTest, YamlAndGraph) {
  const auto model = ParseModel(
      "transformer: {family: llama, hidden: 256, heads: 8, kv_heads: 2, head_size: 32, ffn: 1024, "
      "vocabulary: 1000, sequence: 64, gated: false, rotary: false, state_heads: 16, "
      "state_head_size: 32, state_size: 32, state_groups: 4, state_chunk: 16, pattern: \"M-M*\"}",
      "test");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->transformer->layers, 4);
  // Two mixers, a feed-forward layer, attention, two tables and the last norm.
  EXPECT_EQ(model->workload.ParameterCount(),
            2 * WeightsOf(LayerPart::kMixer) + WeightsOf(LayerPart::kFeedForward) +
                WeightsOf(LayerPart::kAttention) + 2 * 1000 * kHidden + kHidden);
  EXPECT_EQ(model->workload.blocks, 4);
}

}  // namespace
}  // namespace foretrace
