// Memory of a stage whose weights PyTorch's FSDP divides.

#include <gtest/gtest.h>

#include "simulator/mapping/chunk_stash.h"
#include "simulator/mapping/kept_activations.h"
#include "simulator/mapping/mapped_layer.h"
#include "simulator/mapping/memory_model.h"
#include "simulator/mapping/model_layers.h"
#include "simulator/mapping/reserved_memory.h"
#include "tests/unit/mapping/hand_derived.h"

namespace foretrace {
namespace {

// Eight devices divide all weights.
ParallelMapping Divided(Recompute recompute = Recompute::kNone) {
  ParallelMapping m = Mapping(1, 8);
  m.zero = 3;
  m.gradient_bytes = 4;
  m.recompute = recompute;
  return m;
}

TransformerConfig Sharded() {
  TransformerConfig c = Model();
  c.tied = false;
  c.loss = LossForm::kStepwise;
  c.dtype = DType::kBFloat16;
  c.sharded_masters = c.copies_gathered = true;
  return c;
}

MemoryLedger At(StageMoment moment, const TransformerConfig& c, const ParallelMapping& m) {
  return StageMemoryAt(moment, ModelLayers(c), m, 0);
}

// Masters of 4 bytes are the weights, both moments 8; gradients, of one micro-batch, are there when
// it has made them.
TEST(ShardedMemoryTest, States) {
  const TransformerConfig c = Sharded();
  const ParallelMapping m = Divided();
  const MemoryLedger loss = At(StageMoment::kLoss, c, m), root = At(StageMoment::kRoot, c, m);
  TransformerConfig other = c;
  other.sharded_masters = false;
  const MemoryLedger apart = At(StageMoment::kLoss, other, m);
  EXPECT_EQ(loss.weights.count(), 2 * apart.weights.count());  // 4 bytes, not 2 beside the masters
  EXPECT_EQ(loss.weights + loss.optimizer, apart.optimizer);
  EXPECT_EQ(loss.gradients, Bytes());
  EXPECT_EQ(root.gradients, apart.gradients);
  ParallelMapping more = m;
  more.global_batch = 16;
  EXPECT_EQ(At(StageMoment::kLoss, c, more).gradients, apart.gradients);
}

// At the loss the root's weights and the last layer's are there in two bytes; at layers those of
// three, a layer's gradients in two bytes and in four, and the output layer's; at the end the
// root's gradients in two bytes and in four, without its share of those that are reduced.
TEST(ShardedMemoryTest, WhatIsGathered) {
  const TransformerConfig c = Sharded();
  const ParallelMapping m = Divided();
  const MappedLayer layer(c, m);
  const double block = layer.dense(), root = layer.RootWeights().first;
  const auto gathered = [&](StageMoment moment) {
    return static_cast<double>(At(moment, c, m).gathered.count());
  };
  EXPECT_EQ(gathered(StageMoment::kLoss), 2 * (root + block));
  EXPECT_EQ(gathered(StageMoment::kLayers), 2 * (3 * block + root + layer.head()) + 6 * block);
  EXPECT_EQ(gathered(StageMoment::kRoot), (2 + 4 - 4.0 / 8) * root);
}

// When a layer runs again, the loss's logits are gone.
TEST(ShardedMemoryTest, LossAndLayersInTurn) {
  const TransformerConfig c = Sharded();
  const ParallelMapping m = Divided(Recompute::kFull);
  const MemoryLedger loss = At(StageMoment::kLoss, c, m), layers = At(StageMoment::kLayers, c, m);
  EXPECT_EQ(loss.recomputed, Bytes());
  EXPECT_EQ(loss.logits, Bytes(12 * c.sequence * c.vocabulary));
  EXPECT_GT(layers.recomputed, Bytes());
  EXPECT_EQ(layers.logits, Bytes());
  EXPECT_EQ(MemoryOf(c, m).total(), std::max({loss.total(), layers.total(),
                                              At(StageMoment::kRoot, c, m).total() -
                                                  At(StageMoment::kRoot, c, m).activations}));
}

// A gated activation's function leaves the width of the feed-forward layer, 4,096 of two bytes a
// token; keys and values of 4 heads of 64 are copied for 16: 2 x 12 x 64.
TEST(ShardedMemoryTest, KeptOneByOne) {
  TransformerConfig c = Sharded();
  c.gated = true;
  c.rotary = true;
  c.kv_heads = 4;
  const MappedLayer layer(c, Divided());
  const double tokens = static_cast<double>(c.sequence);
  EXPECT_EQ(KeptSingly(layer, true, false), 2 * tokens * 4096);
  EXPECT_EQ(KeptSingly(layer, false, true), 2 * tokens * 2 * 12 * 64);
  EXPECT_EQ(KeptSingly(layer, false, false), 0);
  const double plain = LayerStash(c, Divided(), Recompute::kNone);
  c.eager = c.repeats_keys = true;
  EXPECT_EQ(LayerStash(c, Divided(), Recompute::kNone), plain + KeptSingly(layer, true, true));
}

// Other streams hold the gradients, and the buffer of a layer beside the root's or another layer's.
TEST(ShardedMemoryTest, PoolsOfOtherStreams) {
  TransformerConfig c = Sharded();
  c.expandable_segments = true;
  const ParallelMapping m = Divided();
  const auto followed = FollowAllocations(c, m, 0);
  ASSERT_TRUE(followed.ok()) << followed.status();
  const MappedLayer layer(c, m);
  const double block = 2 * layer.dense(), root = 2 * layer.RootWeights().first;
  const auto other = static_cast<double>(followed->on_other_streams.count() -
                                         At(StageMoment::kRoot, c, m).gradients.count());
  EXPECT_GE(other, block + std::max(root, block));
  EXPECT_LE(other, block + std::max(root, block) + 2 * (20 << 20));
  const auto reserved = ReservedMemoryOf(c, m);
  ASSERT_TRUE(reserved.ok());
  EXPECT_EQ(*reserved, followed->reserved + followed->on_other_streams);
  // What the stream that computes allocates is what the ledger says of it, but for operators at
  // work (AgreesWithTheLedger).
  const auto loss = static_cast<double>(At(StageMoment::kLoss, c, m).total().count());
  EXPECT_GT(static_cast<double>(followed->allocated.count()), 0.95 * loss);
}

}  // namespace
}  // namespace foretrace
