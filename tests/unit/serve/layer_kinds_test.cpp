// Models whose layers differ: dense layers among experts, windows, latent attention.

#include <gtest/gtest.h>

#include <cmath>

#include "simulator/serve/graph_step_model.h"
#include "simulator/serve/layer_attention.h"
#include "simulator/serve/layer_kinds.h"
#include "simulator/serve/memory_ledger.h"
#include "simulator/serve/weighted_gemm.h"
#include "tests/unit/serve/serving_fixture.h"

namespace foretrace::serve {
namespace {

// Eight layers of 64 elements, 4 heads of 16, 2 of keys; FFN of 256; bytes of two.
TransformerConfig Small() {
  TransformerConfig c;
  c.family = TransformerFamily::kLlama;
  c.hidden = 64;
  c.layers = 8;
  c.heads = 4;
  c.kv_heads = 2;
  c.ffn = 256;
  c.vocabulary = 1000;
  c.sequence = 4096;
  c.dtype = DType::kBFloat16;
  return WithDefaults(c);
}
// 512 elements of latent, 64 rotated; heads of 192 and values of 128.
TransformerConfig Latent() {
  TransformerConfig c = Small();
  c.kv_heads = 4;
  c.head_size = 192;
  c.rotary_size = 64;
  c.value_size = 128;
  c.latent = 512;
  return c;
}

StepTime TimeOf(const TransformerConfig& model, const StepBatch& batch,
                const ServingPlan& plan = {}) {
  EngineConfig engine = SmallEngine();
  return MakeGraphStepModel(model, plan, engine, std::make_shared<CountingCosts>())->Time(batch);
}
// Window of 4: the tokens at 0 to 5 attend to 1, 2, 3, 4, 4, 4. In pieces of 4: 1, 2, 3, 4, 1, 2.
TEST(AttentionWindow, PairsAreCounted) {
  const AttentionWindow all, last = {4, false}, pieces = {4, true};
  EXPECT_EQ(all.Pairs(0, 6), 21);
  EXPECT_EQ(last.Pairs(0, 6), 18);
  EXPECT_EQ(pieces.Pairs(0, 6), 13);
  EXPECT_EQ(last.Pairs(3, 2), 8);
  EXPECT_EQ(pieces.Pairs(3, 2), 5);
  for (const AttentionWindow& window : {all, last, pieces}) {
    for (int64_t cached = 0; cached < 20; ++cached) {
      int64_t sum = 0;
      for (int64_t i = 0; i < 11; ++i) sum += window.Before(cached + i) + 1;
      EXPECT_EQ(window.Pairs(cached, 11), sum) << cached;
    }
  }
  EXPECT_FALSE(last.Cuts(0, 4));
  EXPECT_TRUE(last.Cuts(1, 4));
}

// Two decodes with 100 and 1,000 tokens before: 1,102 tokens of 2 heads x 2 x 16 elements of two
// bytes, read, and 4 x 16 written a sequence; in a layer with a window of 128: 100 + 127 + 2.
TEST(GraphStepModel, WindowsAreReadAlone) {
  StepBatch batch;
  batch.AddDecode(100), batch.AddDecode(1000);
  const double written = 2 * 4 * 16 * 2, global = 1102 * 128 + written, local = 229 * 128 + written;
  TransformerConfig model = Small();
  EXPECT_DOUBLE_EQ(Part(TimeOf(model, batch), StepPart::kAttention), 8 * global);
  model.window = 128;
  model.global_every = 4;
  EXPECT_DOUBLE_EQ(Part(TimeOf(model, batch), StepPart::kAttention), 2 * global + 6 * local);
  // Of the sum alone both are taken for 550 long: 127 each.
  batch.decode_lengths.clear();
  EXPECT_DOUBLE_EQ(Part(TimeOf(model, batch), StepPart::kAttention),
                   2 * global + 6 * (256 * 128 + written));
}

// 1,024 tokens after 1,024: all attend to 1,024 x 1,024 cached and half as many of their own; in a
// window of 128 to 128 each, and a tile of 128 on its edges. 4 FLOP an element of 4 heads of 16.
TEST(GraphStepModel, PromptsOfWindows) {
  StepBatch batch;
  batch.prefills = {{1024, 1024}};
  TransformerConfig model = Small();
  const double flop = 4 * 64, global = 1.5 * 1024 * 1024, local = 1024.0 * 256;
  EXPECT_DOUBLE_EQ(Part(TimeOf(model, batch), StepPart::kAttention), 8 * flop * global);
  model.window = 128;
  model.global_every = 2;
  EXPECT_DOUBLE_EQ(Part(TimeOf(model, batch), StepPart::kAttention),
                   4 * flop * global + 4 * flop * local);
  batch.prefills = {{100, 0}};  // within the window nothing changes
  EXPECT_DOUBLE_EQ(Part(TimeOf(model, batch), StepPart::kAttention),
                   Part(TimeOf(Small(), batch), StepPart::kAttention));
}

// Of eight layers three are dense: their GEMMs are those of a dense model's three layers, the
// others those of five layers of experts; attention and head are of all.
TEST(GraphStepModel, DenseLayersAmongExperts) {
  TransformerConfig mixed = Small();
  mixed.experts = 16;
  mixed.top_k = 2;
  mixed.dense_first = 3;
  mixed.dense_ffn = 512;
  TransformerConfig dense = Small();
  dense.ffn = 512;
  dense.layers = 3;
  TransformerConfig experts = mixed;
  experts.dense_first = experts.dense_ffn = 0;
  experts.layers = 5;
  StepBatch batch;
  batch.prefills = {{32, 0}};
  batch.AddDecode(10);
  const StepTime a = TimeOf(mixed, batch), b = TimeOf(dense, batch), c = TimeOf(experts, batch);
  for (const StepPart part : {StepPart::kDense, StepPart::kExperts, StepPart::kAttention}) {
    EXPECT_DOUBLE_EQ(Part(a, part), Part(b, part) + Part(c, part)) << Name(part);
  }
  EXPECT_DOUBLE_EQ(Part(a, StepPart::kHead), Part(b, StepPart::kHead));
}

// A joule a FLOP and a thousandth a byte, whatever the time: of attention's keys and values as of
// GEMMs; weights in 8 bits are half as many bytes, and nothing else changes.
class JouleCosts : public CountingCosts {
 public:
  double JoulesAboveIdle(DType, Flop flop, Bytes bytes, SimTime) const override {
    return flop.count() + 1e-3 * static_cast<double>(bytes.count());
  }
};

TEST(GraphStepModel, EnergyIsThatOfTheWork) {
  TransformerConfig model = Small();
  StepBatch batch;
  batch.AddDecode(1000);
  const auto joules = [&](const TransformerConfig& of, const StepBatch& step) {
    return MakeGraphStepModel(of, {}, EngineConfig(), std::make_shared<JouleCosts>())
        ->Time(step)
        .joules;
  };
  StepBatch longer;
  longer.AddDecode(2000);
  const double kv = 8.0 * 1000 * 2 * static_cast<double>(model.kv_heads * model.head_size) * 2;
  EXPECT_NEAR(joules(model, longer) - joules(model, batch), 1e-3 * kv, 1e-6);
  const double plain = joules(model, batch);
  model.weights = WeightFormat::kInt4;
  EXPECT_LT(joules(model, batch), plain);
  EXPECT_DOUBLE_EQ(TimeOf(model, batch).joules, 0);
}

// Ranks of one replica sum what their experts make, as much as without dividing experts, and
// embedded words. Replicas gather tokens instead and scatter sums, and ranks gather their
// replica's, and the logits of one position (all a thousand times as dear here).
TEST(GraphStepModel, ExpertsOfOneReplicaAreSummed) {
  TransformerConfig model = Small();
  model.experts = 8;
  model.top_k = 2;
  StepBatch batch;
  batch.prefills = {{32, 0}};
  ServingPlan plan;
  plan.tensor = 2;
  const double sum = 32 * 64 * 2, logits = 1000.0 * 1000 * 2;
  const double whole = (2 * 8 + 1) * sum + logits;
  EXPECT_DOUBLE_EQ(Part(TimeOf(model, batch, plan), StepPart::kCommunication), whole);
  plan.expert = true;
  EXPECT_DOUBLE_EQ(Part(TimeOf(model, batch, plan), StepPart::kCommunication), whole);
  // 16 tokens each, with logits of eight experts; the ranks of each gather its 16 results.
  plan.data = 2;
  batch.prefills = {{16, 0}};
  batch.peer_tokens = {16};
  EXPECT_DOUBLE_EQ(Part(TimeOf(model, batch, plan), StepPart::kCommunication),
                   (8 + 1) * sum / 2 + logits + 1000.0 * 8 * (32 * (64 + 8 + 64) + 16 * 64) * 2);
}

// Latents of 576 elements stream by once; GEMMs of 4 heads by 1,088 elements of each token are
// 2 x 4 x 1,088 x 1,001 FLOP, which is more here. A decode takes the GEMM of 512 x 128 into
// queries and results; a prompt makes keys and values, of cached tokens too.
// Reads a byte and does eight FLOP a microsecond, whichever takes longer.
class StreamingCosts : public CountingCosts {
 public:
  explicit StreamingCosts(bool multiplies) : multiplies_(multiplies) {}
  Estimate Kernel(const KernelWork& work) const override {
    const double us = std::max(static_cast<double>(work.read.count()), work.flop.count() / 8);
    return {SimTime::FromUs(us), EstimateSource::kAnalytic, false};
  }
  bool Multiplies(WeightFormat) const override { return multiplies_; }

 private:
  bool multiplies_;
};

// A GEMM of 2 rows, 64 by 128: read are 2 * 128 and 64 * 128 elements of two bytes. Unpacked
// from 4.25 bits, 34 of 128 deep; multiplied in 8 bits one byte each, and the rows brought to it.
TEST(WeightedGemm, ReadsWhatIsStored) {
  KernelWork work;
  work.kind = KernelKind::kBatchedGemm;
  work.dtype = DType::kBFloat16;
  work.batch = 3, work.m = 2, work.n = 64, work.k = 128;
  work.read = Bytes(3 * (2 + 64) * 128 * 2);
  const StreamingCosts unpacks(false), multiplies(true);
  const auto us = [&](const DeviceCosts& costs, WeightFormat format) {
    return WeightedGemm(costs, work, format).time.us();
  };
  EXPECT_NEAR(us(unpacks, WeightFormat::kModel), 3 * 66 * 128 * 2, 1e-6);
  EXPECT_NEAR(us(unpacks, WeightFormat::kMxfp4), 3 * 66 * 34 * 2, 1e-6);
  EXPECT_NEAR(us(multiplies, WeightFormat::kFp8), 3 * 66 * 128 + 3 * 2 * 128 * 2, 1e-6);
  EXPECT_NEAR(us(multiplies, WeightFormat::kMxfp4), 3 * 66 * 68 + 3 * 2 * 128 * 2, 1e-6);
  // Of many rows the arithmetic counts.
  work.batch = 1, work.m = 1 << 20;
  EXPECT_NEAR(us(unpacks, WeightFormat::kInt4), 2.0 * static_cast<double>(work.m) * 64 * 128 / 8,
              1);
}

// Of the layers' GEMMs alone: the ledger of 8 layers of 64 * (64 + 2 * 32 + 64 + 3 * 256)
// weights, beside two tables of the vocabulary and norms.
TEST(WeightFormat, LedgerCountsWhatIsStored) {
  TransformerConfig c = Small();
  const EngineConfig engine = SmallEngine();
  const Bytes whole = MakeLedger(c, {}, engine, Bytes(1 << 30)).weights;
  c.weights = WeightFormat::kFp8;
  const int64_t gemms = 8 * 64 * (64 + 2 * 32 + 64 + 3 * 256);
  EXPECT_EQ((whole - MakeLedger(c, {}, engine, Bytes(1 << 30)).weights).count(), gemms);
  // Of a mixture the router stays as it is.
  TransformerConfig mixture = Small();
  mixture.experts = 4, mixture.top_k = 2;
  const Bytes all = MakeLedger(mixture, {}, engine, Bytes(1 << 30)).weights;
  mixture.expert_weights = WeightFormat::kFp8;
  EXPECT_EQ((all - MakeLedger(mixture, {}, engine, Bytes(1 << 30)).weights).count(),
            8 * 4 * 3 * 64 * 256);
}

TEST(GraphStepModel, LatentAttention) {
  StepBatch batch;
  batch.AddDecode(1000);
  const TransformerConfig model = Latent();
  const StepTime decode = TimeOf(model, batch);
  EXPECT_DOUBLE_EQ(Part(decode, StepPart::kAttention), 8 * 2.0 * 4 * 1088 * 1001);
  batch.Clear();
  batch.prefills = {{1, 0}};
  const StepTime prompt = TimeOf(model, batch);
  // The rest of the layers is alike: 2 x 4 x (128 + 128) x 512 FLOP either way.
  EXPECT_DOUBLE_EQ(Part(decode, StepPart::kDense), Part(prompt, StepPart::kDense));
  batch.prefills = {{1, 99}};
  EXPECT_DOUBLE_EQ(Part(TimeOf(model, batch), StepPart::kDense) - Part(prompt, StepPart::kDense),
                   8 * 99 * 2.0 * 4 * 256 * 512);
}

EngineConfig Engine() {
  EngineConfig engine = SmallEngine();
  engine.memory_utilization = 1;
  return engine;
}

// Latents lie whole on each rank: 576 elements of two bytes in 8 layers.
TEST(MemoryLedger, LatentsAreSmallAndWhole) {
  ServingPlan plan;
  EXPECT_EQ(MakeLedger(Latent(), plan, Engine(), Bytes(1 << 30)).kv_per_token.count(), 8 * 576 * 2);
  plan.tensor = 4;
  EXPECT_EQ(MakeLedger(Latent(), plan, Engine(), Bytes(1 << 30)).kv_per_token.count(), 8 * 576 * 2);
}

// Of eight data-parallel ranks each has what one alone has, a cache of its own too: a request
// cannot reach into another's.
TEST(MemoryLedger, ARankIsAsOneAlone) {
  ServingPlan plan;
  const MemoryLedger one = MakeLedger(Latent(), plan, Engine(), Bytes(1 << 30));
  plan.data = 8;
  const MemoryLedger of_eight = MakeLedger(Latent(), plan, Engine(), Bytes(1 << 30));
  EXPECT_GT(one.activations.count(), 0);
  EXPECT_EQ(of_eight.activations.count(), one.activations.count());
  EXPECT_EQ(of_eight.blocks, one.blocks);
}

// Six layers with windows and two without: groups of two layers, so that a window's blocks take
// three times those of the layers without. Tokens of a request: all blocks less 3 x the window's,
// of which a window of 128 and a step of 64 tokens lie in (127 + 64) / 16 + 2 = 13 at most.
TEST(MemoryLedger, WindowsKeepLittle) {
  TransformerConfig model = Small();
  const ServingPlan plan;
  const MemoryLedger all = MakeLedger(model, plan, Engine(), Bytes(1 << 30));
  model.window = 128;
  model.global_every = 4;
  const MemoryLedger m = MakeLedger(model, plan, Engine(), Bytes(1 << 30));
  EXPECT_EQ(all.kv_per_token.count(), 8 * 128);
  EXPECT_EQ(m.kv_per_token.count(), 2 * 128);
  EXPECT_EQ(m.weights.count(), all.weights.count());
  EXPECT_DOUBLE_EQ(m.window.share, 3);
  EXPECT_EQ(m.tokens, (m.blocks - 39) * 16);
  model.window_pieces = true;  // kept whole
  EXPECT_EQ(MakeLedger(model, plan, Engine(), Bytes(1 << 30)).kv_per_token.count(), 8 * 128);
}

// The fullest stage counts: of two, the second has four layers of experts, the first three dense.
TEST(MemoryLedger, StagesOfUnequalLayers) {
  TransformerConfig c = Small();
  c.experts = 16;
  c.top_k = 2;
  c.dense_first = 3;
  c.dense_ffn = 512;
  ServingPlan plan;
  plan.pipeline = 2;
  // Of a layer: norms 2 x 64, attention 64 x (64 + 32 + 32) + 64 x 64; experts with their router
  // 16 x 3 x 64 x 256 + 64 x 16. Embedding: 64,000, the output layer with its norm 64 more.
  const int64_t attention = 128 + 8192 + 4096, experts = 16 * 3 * 64 * 256 + 1024;
  EXPECT_EQ(MakeLedger(c, plan, Engine(), Bytes(1 << 30)).weights.count(),
            2 * (4 * (attention + experts) + 64'064));
}

// A prompt of 320 tokens in steps of 64 and 31 decodes: 20 blocks of the layers without a window,
// 22 at last; behind a window of 32 tokens blocks are given up, so that 2 x 33 never are held.
TEST(Engine, BlocksBehindTheWindowAreFree) {
  EngineConfig config = SmallEngine();
  config.kv_blocks = 32;
  config.window = {32, 1};
  Deployment d = DeploymentOf(config, 1000, 0);
  const RequestTrace trace = TraceOf({At(0, 320, 32)});
  const auto result = Simulate(trace, d);
  ASSERT_TRUE(result.ok()) << result.status();
  // While the last chunk runs: 20 blocks, and those of the tokens from 256 - 31 on, 225 / 16 = 14
  // being behind: 6. At the end 22 and 22 - (350 - 31) / 16 = 3.
  EXPECT_EQ(result->peak_blocks, 26);
  EXPECT_EQ(result->preemptions, 0);
  EXPECT_EQ(result->steps.back().used_blocks, 25);
  // Room for the longest request: (31 + 64) / 16 + 2 = 7 of 32 blocks are the window's.
  const auto refused = Simulate(TraceOf({At(0, 399, 16)}), d);
  EXPECT_FALSE(refused.ok());
  d.pool.config.kv_blocks = 33;
  EXPECT_TRUE(Simulate(TraceOf({At(0, 399, 16)}), d).ok());
}

TEST(LayerKinds, ProfilesAreOfLayersThatAreAlike) {
  TransformerConfig model = Small();
  EXPECT_TRUE(CheckUniform(model).ok());
  model.window = 128;
  EXPECT_FALSE(CheckUniform(model).ok());
  EXPECT_FALSE(CheckUniform(Latent()).ok());
}

// Kernels that a graph would issue together follow each other later where nothing is captured: each
// of a layer's ten (two norms, five GEMMs of its projections, activation, attention, rotation or
// more) by 2 us, so that a step without graphs is never the faster.
TEST(GraphSteps, KernelsOfNoGraphFollowLater) {
  StepBatch batch;
  for (int i = 0; i < 5; ++i) batch.AddDecode(100);
  EngineConfig graphs;
  graphs.graph_sizes = {5};
  graphs.graph_saves_per_kernel = SimTime::FromUs(2);
  EngineConfig none = graphs;
  none.graph_sizes.clear();
  const auto time = [&](const EngineConfig& engine) {
    return MakeGraphStepModel(Small(), {}, engine, std::make_shared<CountingCosts>())->Time(batch);
  };
  const double later = time(none).us() - time(graphs).us();
  EXPECT_GE(later, 2 * 8 * 7);
  EXPECT_NEAR(std::remainder(later, 2), 0, 1e-6);
}

}  // namespace
}  // namespace foretrace::serve
