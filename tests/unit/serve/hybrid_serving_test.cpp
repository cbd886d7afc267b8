// Models each of whose layers is one part: states of mixers beside keys and values of attention.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "simulator/serve/graph_step_model.h"
#include "simulator/serve/layer_kinds.h"
#include "simulator/serve/memory_ledger.h"
#include "simulator/workload/layer_pattern.h"
#include "tests/support/hybrid_model.h"
#include "tests/unit/serve/serving_fixture.h"

namespace foretrace::serve {
namespace {

using ::testing::HasSubstr;

// Three mixers, two layers of attention, three feed-forward layers.
TransformerConfig Model() {
  TransformerConfig c = HybridModel("M-M*-M*-");
  c.state_bits = 32;
  return c;
}
constexpr int64_t kInputs = 512, kReaders = 128, kSteps = 16, kStates = 512 * 32;
constexpr int64_t kConvolved = kInputs + 2 * kReaders;

EngineConfig Engine() {
  EngineConfig engine = SmallEngine();
  engine.memory_utilization = 1;
  return engine;
}

StepTime TimeOf(const TransformerConfig& model, const StepBatch& batch,
                const ServingPlan& plan = {}) {
  return MakeGraphStepModel(model, plan, Engine(), std::make_shared<CountingCosts>())->Time(batch);
}

// Of each kind its own parts alone.
TEST(HybridServing, LayersAreCountedByTheirParts) {
  EXPECT_EQ(AttentionLayers(Model()), 2);
  EXPECT_EQ(StateLayersOf(Model(), {})->layers, 3);
  EXPECT_EQ(ServedKinds(Model(), {}).size(), 3u);
  const TransformerConfig attention = HybridModel("**", 2);
  EXPECT_FALSE(StateLayersOf(attention, {}).has_value());
}

// Two decodes: attention reads 1,102 tokens of 2 heads x 2 x 32 elements in two layers; mixers
// read and write states in three, whatever came before.
TEST(HybridServing, DecodesUpdateStates) {
  StepBatch batch;
  batch.AddDecode(100), batch.AddDecode(1000);
  const StepTime time = TimeOf(Model(), batch);
  const int64_t keys = 1102 * 2 * 2 * 32 * 2 + 2 * 8 * 32 * 2;
  EXPECT_DOUBLE_EQ(Part(time, StepPart::kAttention), 2.0 * keys);
  const int64_t convolution = 2 * (2 + 2 * 3) * kConvolved * 2;
  const int64_t update =
      2 * (2 * 4 * kStates + 2 * (2 * kInputs + 2 * kReaders + kSteps) + 2 * kInputs);
  EXPECT_DOUBLE_EQ(Part(time, StepPart::kStates), 3.0 * (convolution + update));
  StepBatch longer;
  longer.AddDecode(1000), longer.AddDecode(1000);
  EXPECT_DOUBLE_EQ(Part(TimeOf(Model(), longer), StepPart::kStates), Part(time, StepPart::kStates));
}

// 40 tokens behind 24 touch the chunks from 16 to 64, three of them; 10 more of another prompt one:
// GEMMs of 4 chunks of 16. GEMMs cost their FLOP here and copies nothing, so that states in 32 bits
// take 2 bytes more where they go from chunk to chunk.
TEST(HybridServing, PromptsAreScannedByChunks) {
  StepBatch batch;
  batch.prefills = {{40, 24}, {10, 0}};
  TransformerConfig narrow = Model();
  narrow.state_bits = 0;
  const double time = Part(TimeOf(narrow, batch), StepPart::kStates);
  const double flop = 2.0 * 4 * 16 * (kInputs * (32 + 32 + 16) + 4 * 16 * 32);
  EXPECT_GT(time, 3 * flop);
  StepBatch whole = batch;
  whole.prefills = {{64, 16}, {16, 0}};  // as many chunks of all their tokens
  EXPECT_GT(Part(TimeOf(narrow, whole), StepPart::kStates), time);
  EXPECT_DOUBLE_EQ(Part(TimeOf(Model(), batch), StepPart::kStates) - time, 3.0 * 2 * 4 * kStates);
}

// The rest of a step is that of its layers: a mixer's GEMMs are 2 h (2 X + 2 B + H) + 2 X h FLOP a
// token, and a sum each where heads are divided.
TEST(HybridServing, GemmsAndSumsOfMixers) {
  StepBatch batch;
  batch.AddDecode(10);
  const double one = Part(TimeOf(HybridModel("*M", 2), batch), StepPart::kDense);
  const double two = Part(TimeOf(HybridModel("*MM", 3), batch), StepPart::kDense);
  const double gemms = 2.0 * 256 * (3 * kInputs + 2 * kReaders + kSteps);
  EXPECT_GE(two - one, gemms);
  EXPECT_LT(two - one, 1.02 * gemms + 10'000);  // norms and the residual by their bytes
  ServingPlan plan;
  plan.tensor = 2;
  const double sum = 256 * 2, logits = 1000.0 * 1000 * 2;
  EXPECT_DOUBLE_EQ(Part(TimeOf(Model(), batch, plan), StepPart::kCommunication),
                   (8 + 1) * sum + logits);
  EXPECT_DOUBLE_EQ(Part(TimeOf(HybridExperts(), batch, plan), StepPart::kCommunication),
                   (8 + 1) * sum + logits);
}

// Attention and a mixer side by side are both of the layer; each is summed over ranks.
TEST(HybridServing, ParallelBranches) {
  StepBatch batch;
  batch.AddDecode(100), batch.AddDecode(1000);
  const TransformerConfig model = HybridModel("P-P-", 4);
  EXPECT_EQ(AttentionLayers(model), 2);
  EXPECT_EQ(StateLayersOf(model, {})->layers, 2);
  EXPECT_EQ(StateLayersOf(HybridModel("P-M*", 4), {})->layers, 2);  // one of either
  const StepTime time = TimeOf(model, batch), apart = TimeOf(HybridModel("*M*M", 4), batch);
  EXPECT_DOUBLE_EQ(Part(time, StepPart::kAttention), Part(apart, StepPart::kAttention));
  EXPECT_DOUBLE_EQ(Part(time, StepPart::kStates), Part(apart, StepPart::kStates));
  ServingPlan plan;
  plan.tensor = 2;
  const double sum = 2 * 256 * 2, logits = 2 * 1000.0 * 1000 * 2;
  EXPECT_DOUBLE_EQ(Part(TimeOf(model, batch, plan), StepPart::kCommunication),
                   (2 * 3 + 1) * sum + logits);
  // Layers of both are as many as of either: one group each.
  const MemoryLedger m = MakeLedger(model, {}, Engine(), Bytes(1 << 30));
  EXPECT_EQ(m.window.states, 1);
  EXPECT_EQ(m.kv_per_token.count(), 2 * 2 * 2 * 32 * 2);
}

// Gated delta nets: 16 heads of values of 32 x 32, two numbers each; the norm has the gate in it,
// so that of its layer's dense part the GEMMs are h (2 X + 2 B + 2 H) + X h. Two prompts of 32
// tokens: chunks of 16, two one after the other.
TEST(HybridServing, GatedDeltaNets) {
  StepBatch batch;
  batch.AddDecode(100), batch.AddDecode(1000);
  const TransformerConfig model = DeltaModel();
  EXPECT_EQ(StateLayersOf(model, {})->layers, 3);
  EXPECT_TRUE(StateLayersOf(model, {})->scan.delta);
  const int64_t convolution = 2 * (2 + 2 * 3) * kConvolved * 2;
  const int64_t update =
      2 * (2 * 2 * kStates + 2 * (2 * kInputs + 2 * kReaders + 2 * kSteps) + 2 * kInputs);
  EXPECT_DOUBLE_EQ(Part(TimeOf(model, batch), StepPart::kStates), 3.0 * (convolution + update));
  ServingPlan plan;
  plan.tensor = 2;
  const double sum = 2 * 256 * 2, logits = 2 * 1000.0 * 1000 * 2;
  EXPECT_DOUBLE_EQ(Part(TimeOf(model, batch, plan), StepPart::kCommunication),
                   (8 + 1) * sum + logits);
  const MemoryLedger m = MakeLedger(model, {}, Engine(), Bytes(1 << 30));
  EXPECT_EQ(m.state_per_sequence.count(), 3 * (2 * kStates + 3 * kConvolved * 2));
  batch.Clear();
  batch.prefills = {{32, 0}, {32, 0}};
  const double flop = 2.0 * 64 * 16 * (16 * 32 + 16 * 64 + 2 * 32 * 32 + 32 * 32 + 2 * 16 * 32);
  const double fresh = Part(TimeOf(model, batch), StepPart::kStates);
  EXPECT_GT(fresh, 3 * flop);
  batch.prefills = {{32, 0}, {32, 24}};  // chunks begin with the step's own tokens
  EXPECT_DOUBLE_EQ(Part(TimeOf(model, batch), StepPart::kStates), fresh);
}

// Without a norm the gate is a kernel of its own: the result is read and written once more.
TEST(HybridServing, GatesWithoutNorms) {
  StepBatch batch;
  batch.AddDecode(10);
  TransformerConfig plain = Model();
  plain.state_norm = false;
  EXPECT_DOUBLE_EQ(Part(TimeOf(plain, batch), StepPart::kStates) -
                       Part(TimeOf(Model(), batch), StepPart::kStates),
                   3.0 * 2 * kInputs * 2);
}

// Of one group each rank has a copy, and half of the heads; the squares of its norm are summed, 4
// bytes a token.
TEST(HybridServing, RanksCopyTheOneGroup) {
  TransformerConfig model = Model();
  model.state_groups = 1;
  ServingPlan plan;
  plan.tensor = 2;
  ASSERT_TRUE(plan.Fits(model).ok()) << plan.Fits(model);
  const StateScan scan = StateLayersOf(model, plan)->scan;
  EXPECT_EQ(scan.groups, 1);
  EXPECT_EQ(scan.width, kInputs / 2);
  EXPECT_EQ(scan.heads, kSteps / 2);
  EXPECT_EQ(StateLayersOf(model, {})->scan.width, kInputs);
  StepBatch batch;
  batch.AddDecode(10);
  const double of_one = Part(TimeOf(model, batch, plan), StepPart::kCommunication);
  EXPECT_DOUBLE_EQ(of_one - Part(TimeOf(Model(), batch, plan), StepPart::kCommunication), 3.0 * 4);
}

// States of a layer are 4 x 512 x 32 bytes and 3 x 768 x 2 of the convolution, 70,144; keys and
// values of 16 tokens 4,096, so that blocks of 288 tokens are as large. Three layers with mixers
// and two with attention make groups of two: one, and two of states, the last filled up.
TEST(HybridServing, StatesLieInBlocksOfTheCache) {
  const MemoryLedger m = MakeLedger(Model(), {}, Engine(), Bytes(1 << 30));
  const int64_t layer = 4 * kStates + 3 * kConvolved * 2;
  EXPECT_EQ(layer, 70'144);
  EXPECT_EQ(m.state_per_sequence.count(), 3 * layer);
  EXPECT_EQ(m.block_tokens, 288);
  EXPECT_EQ(m.kv_per_token.count(), 2 * 2 * 2 * 32 * 2);
  EXPECT_EQ(m.window.states, 2);
  EXPECT_EQ(m.blocks, m.kv.count() / (m.kv_per_token.count() * 288));
  EXPECT_EQ(m.tokens, (m.blocks - 2) * 288);
  EXPECT_EQ(m.states.count(), 0);
  // In the model's precision: 37,376, ten blocks.
  TransformerConfig narrow = Model();
  narrow.state_bits = 0;
  EXPECT_EQ(MakeLedger(narrow, {}, Engine(), Bytes(1 << 30)).block_tokens, 160);
  // Of half the heads as many tokens again, of half the keys.
  ServingPlan plan;
  plan.tensor = 2;
  EXPECT_EQ(MakeLedger(Model(), plan, Engine(), Bytes(1 << 30)).block_tokens, 288);
}

// An engine with memory for states beside the cache divides what is left 1 to 0.9.
TEST(HybridServing, StatesBesideTheCache) {
  EngineConfig engine = Engine();
  engine.state_memory_ratio = 0.9;
  engine.state_width = 4;
  TransformerConfig model = Model();
  model.state_bits = 0;
  const MemoryLedger m = MakeLedger(model, {}, engine, Bytes(1 << 30));
  EXPECT_EQ(m.block_tokens, 16);
  EXPECT_EQ(m.window.states, 0);
  EXPECT_NEAR(static_cast<double>(m.states.count()), 0.9 * static_cast<double>(m.kv.count()), 2);
  EXPECT_EQ(m.most_sequences, m.states.count() / (3 * 70'144));
  EXPECT_TRUE(m.fits());
  engine.state_memory_ratio = 1e-9;
  const MemoryLedger none = MakeLedger(model, {}, engine, Bytes(1 << 30));
  EXPECT_FALSE(none.fits());
  EXPECT_THAT(Verdict(none), HasSubstr("of one sequence"));
}

// Keys and values of a token are 256 bytes; states of 4 x 512 x 4,096 bytes and 3 x 33,280 x 2 of
// the convolution as many as 33,548 of these: no block is that large, nor the model served with
// smaller ones.
TEST(HybridServing, StatesThatNoBlockHolds) {
  EngineConfig engine = Engine();
  engine.block_tokens = 1;
  TransformerConfig model = Model();
  model.state_size = 4096;
  const MemoryLedger m = MakeLedger(model, {}, engine, Bytes(int64_t{1} << 36));
  EXPECT_GE(m.tokens, m.context);
  EXPECT_FALSE(m.fits());
  EXPECT_FALSE(m.fits_states());
  EXPECT_THAT(Verdict(m), HasSubstr("33548 of the engine's blocks"));
  EXPECT_TRUE(MakeLedger(Model(), {}, Engine(), Bytes(1 << 30)).fits_states());
}

// Of a gated delta net's token, in elements of 2 bytes: projected 2 x 512 + 2 x 128 + 2 x 16; twice
// the 768 convolved; keys and queries normalised, 2 x 128; keys of 16 heads of values, 16 x 32;
// values twice, 2 x 512; a row of 16 of each head's inverse, 256; a 16th of states, 1,024; results
// and their norm, 1,024. Decays, sums and step sizes of 4 bytes. Of the layer 3 x 256 besides.
TEST(HybridServing, ActivationsOfGatedDeltaNets) {
  EngineConfig engine = Engine(), twice = Engine();
  engine.sampler_bytes_per_logit = twice.sampler_bytes_per_logit = 0;
  engine.max_num_batched_tokens = 1000;
  twice.max_num_batched_tokens = 2000;
  const int64_t elements = 1312 + 2 * 768 + 256 + 512 + 1024 + 256 + 1024 + 1024;
  const Bytes more = MakeLedger(DeltaModel(), {}, twice, Bytes(1 << 30)).activations -
                     MakeLedger(DeltaModel(), {}, engine, Bytes(1 << 30)).activations;
  EXPECT_EQ(more.count(), 1000 * (2 * elements + 3 * 16 * 4 + 3 * 256 * 2));
}

// Weights are those of each layer: in the model's precision 2 bytes a parameter.
TEST(HybridServing, WeightsOfEachPart) {
  const TransformerConfig model = HybridExperts();
  const auto built = BuildTransformer(model);
  ASSERT_TRUE(built.ok()) << built.status();
  int64_t parameters = 0;
  for (const Operator& op : built->operators) parameters += op.parameters;
  EXPECT_EQ(MakeLedger(model, {}, Engine(), Bytes(1 << 30)).weights.count(), 2 * parameters);
}

// Of a sequence three blocks of states are held from its first step to its last: of 7 blocks the
// second sequence finds none for its 20 tokens while the first has 3 and 2.
TEST(HybridServing, SequencesHoldTheirStates) {
  EngineConfig config = SmallEngine();
  config.kv_blocks = 7;
  config.window.states = 3;
  Deployment d = DeploymentOf(config, 1000, 0);
  const RequestTrace trace = TraceOf({At(0, 20, 4), At(0, 20, 4)});
  const auto result = Simulate(trace, d);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->peak_blocks, 5);
  EXPECT_EQ(result->preemptions, 0);
  d.pool.config.kv_blocks = 10;
  EXPECT_EQ(Simulate(trace, d)->peak_blocks, 10);
  // One that is longer than what the states leave is refused.
  d.pool.config.kv_blocks = 4;
  EXPECT_FALSE(Simulate(trace, d).ok());
}

// Keys and values of 100 tokens and the states go together.
TEST(HybridServing, StatesGoToDecodeEnginesToo) {
  Deployment d = DeploymentOf(SmallEngine(), 1000, 0);
  d.decode = d.pool;
  d.link = {Bytes(1000), Bandwidth::BytesPerSecond(1e9), SimTime()};
  const RequestTrace trace = TraceOf({At(0, 100, 4)});
  const SimTime plain = Simulate(trace, d)->end;
  d.link.bytes_of_states = Bytes(1'000'000);
  EXPECT_EQ(Simulate(trace, d)->end - plain, SimTime::FromUs(1000));
}

TEST(HybridServing, WhatIsNotDivided) {
  ServingPlan plan;
  plan.tensor = 8;
  EXPECT_THAT(std::string(plan.Fits(Model()).message()), HasSubstr("groups of states"));
  plan.tensor = 1;
  plan.kv = 2;
  EXPECT_THAT(std::string(plan.Fits(Model()).message()), HasSubstr("not of positions"));
  EXPECT_THAT(std::string(CheckUniform(Model()).message()), HasSubstr("one part"));
}

}  // namespace
}  // namespace foretrace::serve
