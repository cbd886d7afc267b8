#include "simulator/mapping/kept_activations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "simulator/mapping/chunk_stash.h"
#include "simulator/mapping/iteration_model.h"
#include "simulator/mapping/memory_model.h"

namespace foretrace {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kTokens = 512;

// Latent attention of 4 heads and a gated layer of 2,048; sizes below count a token's elements.
TransformerConfig Latent() {
  TransformerConfig c;
  c.family = TransformerFamily::kLlama;
  c.hidden = 1024;
  c.layers = 4;
  c.heads = 4;
  c.head_size = 96;
  c.rotary_size = 32;
  c.value_size = 64;
  c.latent = 128;
  c.query_latent = 256;
  c.ffn = 2048;
  c.vocabulary = 1000;
  c.sequence = kTokens;
  c.dtype = DType::kBFloat16;
  c.fused_attention = true;
  return c;
}

ParallelMapping Words(const std::string& text) { return *ParseMapping(text, 8, "test"); }

// What enters, its norm's output, latents and theirs, heads, context, residual, its norm's output,
// both branches and the activation.
TEST(KeptActivationsTest, BytesOfALayer) {
  const auto bytes = [](const char* words, Recompute recompute) {
    return LayerStash(Latent(), Words(words), recompute) / kTokens;
  };
  constexpr double heads = 384 + 384 + 256, up = 4096;
  EXPECT_DOUBLE_EQ(bytes("tp1", Recompute::kNone),
                   2 * (4 * 1024 + 2 * (256 + 128) + heads + 256 + up + 2048));
  // Norms, heads and the activation follow from the rest and from the key part that is rotated.
  EXPECT_DOUBLE_EQ(bytes("tp1", Recompute::kLight), 2 * (2 * 1024 + 256 + 128 + 32 + 256 + up));
  // GEMMs' inputs and the branches in 8 bits with a scale of 32 for 128 values, the context in 12.
  constexpr double eight = 8.25 / 8, twelve = 12.25 / 8;
  EXPECT_DOUBLE_EQ(bytes("tp1 fp8 keep-fp8", Recompute::kNone),
                   2 * (2 * 1024 + 256 + 128 + heads) + eight * (2 * 1024 + 256 + 128 + up + 2048) +
                       twelve * 256);
  EXPECT_DOUBLE_EQ(bytes("tp1 fp8 keep-fp8 light", Recompute::kLight),
                   2 * (2 * 1024 + 256 + 128 + 32) + eight * up + twelve * 256);
}

// What experts give is not kept where the activation has been weighed.
TEST(KeptActivationsTest, RoutersWeightsBeforeTheSecondGemm) {
  TransformerConfig c = Latent();
  c.experts = 8;
  c.top_k = 2;
  const double after = LayerStash(c, Words("tp1"), Recompute::kNone);
  c.weighs_activations = true;
  EXPECT_DOUBLE_EQ(after - LayerStash(c, Words("tp1"), Recompute::kNone), kTokens * 2 * 1024 * 2.0);
}

// Heads that are exchanged for sequences: attention's output of its heads, and of its tokens.
TEST(KeptActivationsTest, OutputsOfExchangedHeadsAreKeptTwice) {
  const double gathered = LayerStash(Latent(), Words("tp1 cp2"), Recompute::kNone);
  const double exchanged = LayerStash(Latent(), Words("tp1 cp2 ulysses"), Recompute::kNone);
  EXPECT_DOUBLE_EQ(exchanged - gathered, 2 * 256 * kTokens / 2);
}

TEST(KeptActivationsTest, RunningAgainTakesTime) {
  ClusterParameters cluster;
  cluster.issue = SimTime();  // or the CPU would be what all wait for
  const auto passes = [&](const char* words) {
    return *TimePasses(Latent(), Words(words), cluster);
  };
  const PassTimes none = passes("tp1"), light = passes("tp1 light"), full = passes("tp1 full");
  EXPECT_EQ(light.layer_forward, none.layer_forward);
  EXPECT_GT(light.layer_backward, none.layer_backward);
  EXPECT_LT(light.layer_backward, full.layer_backward);
  const PassTimes wide = passes("tp1 fp8"), eight = passes("tp1 fp8 keep-fp8");
  EXPECT_GT(eight.layer_forward, wide.layer_forward);
  EXPECT_GT(eight.layer_backward, wide.layer_backward);
}

// Adam reads 16 and writes 12 bytes a weight in 32 bits, 12 and 8 with moments of 16.
TEST(KeptActivationsTest, MomentsOfFewerBits) {
  const auto share = [](const char* words) {
    const ParallelMapping m = Words(words);
    return static_cast<double>(MemoryOf(Latent(), m).optimizer.count()) /
           static_cast<double>(MemoryOf(Latent(), m).weights.count());
  };
  EXPECT_DOUBLE_EQ(share("tp1"), 6);
  EXPECT_DOUBLE_EQ(share("tp1 moments16"), 4);
  EXPECT_DOUBLE_EQ(share("tp1 moments8"), 3);
  const auto optimizer = [](const char* words) {
    return TimePasses(Latent(), Words(words), {})->optimizer.seconds();
  };
  const double saved = optimizer("tp1") - optimizer("tp1 moments16");
  EXPECT_GT(saved, 0);
  EXPECT_NEAR((optimizer("tp1") - optimizer("tp1 moments8")) / saved, 1.5, 0.01);
}

TEST(KeptActivationsTest, WordsThatDoNotGoTogether) {
  EXPECT_EQ(ToString(Words("tp1 fp8 keep-fp8 moments16 light")),
            "tp1 pp1 dp1 mb1 v1 light fp8 moments16 keep-fp8");
  const auto fault = [](const char* words) {
    return std::string(CheckMapping(Latent(), Words(words), 0).message());
  };
  EXPECT_EQ(fault("tp1 fp8 keep-fp8 light"), "");
  EXPECT_THAT(fault("tp1 keep-fp8"), HasSubstr("fp8 or mxfp8 too"));
  EXPECT_THAT(fault("tp1 fp8 keep-fp8 full"), HasSubstr("light, selective or none"));
  EXPECT_THAT(fault("tp1 offload moments16"), HasSubstr("on the host"));
}

}  // namespace
}  // namespace foretrace
