// Frozen weights (ParallelMapping::last_layers, train_attention, train_ffn).

#include <gtest/gtest.h>

#include "simulator/mapping/memory_model.h"
#include "simulator/mapping/trained_flop.h"
#include "tests/unit/mapping/hand_derived.h"

namespace foretrace {
namespace {

// Of four layers the last one is trained: 12 h^2 + 13 h weights have gradients of two bytes and
// states of 12; the table and positions (3,072 h) and the output layer have none.
TEST(PartialTrainingTest, LastLayersHaveGradientsAndStates) {
  constexpr int64_t kLayer = 12 * 1024 * 1024 + 13 * 1024;
  const TransformerConfig c = Model();
  ParallelMapping m = Mapping(1, 2);
  const MemoryLedger all = MemoryOf(c, m);
  m.last_layers = 1;
  const MemoryLedger last = MemoryOf(c, m);
  EXPECT_EQ(last.weights, all.weights);
  EXPECT_EQ(last.gradients, Bytes(2 * kLayer));
  EXPECT_EQ(last.optimizer, Bytes(12 * kLayer));
  EXPECT_EQ(last.activations, Bytes(all.activations.count() / 4));
  const PassTimes times = Times(c, m);
  EXPECT_EQ(times.gradient_bytes, Bytes(2 * kLayer));
  m.zero = 1;
  EXPECT_EQ(MemoryOf(c, m).optimizer, Bytes(6 * kLayer));
}

// One layer runs backward, nothing of the embedding does; of the output layer only the gradient of
// its input, 2 T h V FLOP at 100 TFLOP/s.
TEST(PartialTrainingTest, NoBackwardPassGoesBelow) {
  const TransformerConfig c = Model();
  const ClusterParameters p = GemmsAlone();
  ParallelMapping m = Mapping(1, 1);
  const PassTimes all = Times(c, m, p);
  m.last_layers = 1;
  const PassTimes last = Times(c, m, p);
  EXPECT_EQ(last.layer_forward, all.layer_forward);
  EXPECT_EQ(last.layer_backward, all.layer_backward);
  EXPECT_EQ(last.embedding_backward, SimTime());
  const double head = 2.0 * 1024 * 1024 * 2048 / 100e12;
  EXPECT_NEAR((all.head_backward - last.head_backward).seconds(), head, 1e-8);
  const auto pipeline = PipelineOf(c, m, last);
  ASSERT_TRUE(pipeline.ok());
  EXPECT_EQ(pipeline->stages[0].backward[0], last.layer_backward + last.head_backward);
  EXPECT_EQ(pipeline->stages[0].forward[0], SimTime::FromPs(4 * last.layer_forward.ps()) +
                                                last.embedding_forward + last.head_forward);
}

// Of a layer's 12 h^2 GEMM weights attention has 4 h^2, the feed-forward layer 8; norms and, of
// this family, biases of GEMMs go with neither, respectively with both. Frozen GEMMs have no
// weight gradient: 2 T x 8 h^2, or 4 h^2, FLOP less.
TEST(PartialTrainingTest, PartsOfLayers) {
  TransformerConfig c = Model();
  c.biases = false;
  const ClusterParameters p = GemmsAlone();
  ParallelMapping m = Mapping(1, 2);
  const PassTimes all = Times(c, m, p);
  m.train_attention = true;
  const PassTimes attention = Times(c, m, p);
  EXPECT_EQ(attention.gradient_bytes, Bytes(2 * 4 * 4 * 1024 * 1024));
  EXPECT_NEAR((all.layer_backward - attention.layer_backward).seconds(),
              2.0 * 1024 * 8 * kH2 / 100e12, 1e-7);
  // What only weight gradients of the feed-forward layer would read is not kept: its input and the
  // activations, 1 + 4 times T h of two bytes, of each of four layers.
  EXPECT_EQ(MemoryOf(c, Mapping(1, 2)).activations - MemoryOf(c, m).activations,
            Bytes(4 * 5 * 2 * 1024 * 1024));
  m.train_attention = false;
  m.train_ffn = true;
  const PassTimes ffn = Times(c, m, p);
  EXPECT_EQ(ffn.gradient_bytes, Bytes(2 * 4 * 8 * 1024 * 1024));
  EXPECT_NEAR((all.layer_backward - ffn.layer_backward).seconds(), 2.0 * 1024 * 4 * kH2 / 100e12,
              1e-7);
  EXPECT_EQ(ffn.optimizer.ps() > 0, true);
}

constexpr double kAttention = 4.0 * 1024 * 1024 * 1024;  // of a layer, forward

// The output layer takes 2 T h V FLOP. Of the last of four layers trained: five layers and two
// output layers, and the gradients of 12 h^2 weights, with 13 h of norms and biases that multiply
// each token once too. Attention, 4 T^2 h, is backward twice what it is forward, whatever is
// trained.
TEST(PartialTrainingTest, UtilisationIsOfWhatIsTrained) {
  const TransformerConfig c = Model();
  ParallelMapping m = Mapping(1, 1);
  EXPECT_EQ(TrainedFlopOf(c, m).count(), ModelFlopOf(c).count());
  TransformerConfig none = c;
  none.layers = 3;
  const double block = (ModelFlopOf(c).count() - ModelFlopOf(none).count()) / 3;
  const double ends = ModelFlopOf(c).count() / 3 - 4 * block;
  EXPECT_NEAR(ends, 2.0 * 1024 * 1024 * 2048, 1);
  m.last_layers = 1;
  EXPECT_NEAR(TrainedFlopOf(c, m).count(),
              5 * block + 2 * ends + 2.0 * 1024 * (12 * kH2 + 13 * 1024) + kAttention, 1e3);
  m = Mapping(1, 1);
  m.train_ffn = true;
  EXPECT_NEAR(TrainedFlopOf(c, m).count(),
              8 * block + 2 * ends + 4 * (2.0 * 1024 * (8 * kH2 + 5 * 1024) + kAttention), 1e3);
}

// A window of a quarter of the sequence leaves three quarters of attention out, of every layer but
// each second one; pieces as many.
TEST(PartialTrainingTest, WindowsCountTheirKeys) {
  TransformerConfig c = Model();
  const double whole = ModelFlopOf(c).count();
  c.window = 256;
  c.global_every = 2;
  EXPECT_NEAR(ModelFlopOf(c).count(), whole - 3 * 2 * 0.75 * kAttention, 1e3);
  c.window_pieces = true;
  EXPECT_NEAR(ModelFlopOf(c).count(), whole - 3 * 2 * 0.75 * kAttention, 1e3);
  c.window = 4096;
  EXPECT_EQ(ModelFlopOf(c).count(), whole);
}

// Of 8 experts of 8 h^2 + 5 h elements two are chosen. Where each takes half of its even share,
// half of that is not computed, in four layers and three passes.
TEST(PartialTrainingTest, DroppedTokensAreNotCounted) {
  const TransformerConfig c = Model(8);
  ParallelMapping m = Mapping(1, 1);
  const double whole = ModelFlopOf(c).count();
  EXPECT_EQ(TrainedFlopOf(c, m).count(), whole);
  m.expert_capacity = 50;
  const double experts = 2.0 * 1024 * 2 * (8 * kH2 + 5 * 1024);
  EXPECT_NEAR(TrainedFlopOf(c, m).count(), whole - 3 * 4 * 0.5 * experts, 1e3);
  // Of the last of four layers trained: four forward, and two backward of its own.
  m.last_layers = 1;
  const double dropping = TrainedFlopOf(c, m).count();
  m.expert_capacity = 0;
  EXPECT_NEAR(TrainedFlopOf(c, m).count() - dropping, (4 + 2) * 0.5 * experts, 1e3);
  m.last_layers = 0;
  m.expert_capacity = 125;
  EXPECT_EQ(TrainedFlopOf(c, m).count(), whole);
}

TEST(PartialTrainingTest, NonsenseIsRefused) {
  const TransformerConfig c = Model();
  const char* const wrong[] = {"tp1 pp1 dp1 last4",  "tp1 pp1 dp1 last9",
                               "tp1 pp2 dp1 last1",  "tp1 pp2 dp1 last2",
                               "tp1 pp1 dp1 last-1", "tp1 pp1 dp1 lora8 train-ffn",
                               "tp1 pp1 dp1 last",   "tp1 pp1 dp1 last1 last2"};
  for (const char* words : wrong) {
    const auto mapping = ParseMapping(words, 4, "test");
    EXPECT_FALSE(mapping.ok() && TimePasses(c, *mapping, Cluster()).ok()) << words;
  }
  const auto mapping = ParseMapping("tp1 pp2 dp1 last3 train-ffn", 4, "test");
  ASSERT_TRUE(mapping.ok());
  EXPECT_TRUE(TimePasses(c, *mapping, Cluster()).ok());
  EXPECT_EQ(TrainedLayersOf(c, *mapping, 0, 0), 1);
  EXPECT_EQ(StageTrainedLayers(c, *mapping, 1), 2);
  const auto again = ParseMapping(ToString(*mapping), 4, "test");
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*again, *mapping);
}

}  // namespace
}  // namespace foretrace
