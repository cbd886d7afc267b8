// Layers of which only some are recomputed, and modules of layers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "simulator/mapping/chunk_stash.h"
#include "simulator/mapping/idle_choice.h"
#include "simulator/mapping/kept_inputs.h"
#include "simulator/mapping/memory_model.h"
#include "simulator/mapping/model_layers.h"
#include "simulator/mapping/recomputed_modules.h"
#include "simulator/mapping/reserved_memory.h"
#include "tests/unit/mapping/hand_derived.h"

namespace foretrace {
namespace {

using testing::HasSubstr;

// 1,024 tokens of h in two bytes.
constexpr int64_t kInput = 1024 * 1024 * 2;

ParallelMapping Words(const std::string& words, int32_t batch = 8) {
  const auto m = ParseMapping(words, batch, "test");
  EXPECT_TRUE(m.ok()) << m.status();
  if (!m.ok()) return {};
  EXPECT_EQ(*ParseMapping(ToString(*m), batch, "test"), *m) << ToString(*m);
  return *m;
}

// Of four layers N keep their input alone, the others W each; while one runs again W - 1 input.
TEST(RecomputedLayersTest, MemoryOfTheFirstOnes) {
  const auto of = [](const std::string& words) { return MemoryOf(Model(), Words(words)); };
  const int64_t layer = of("tp2").activations.count() / 4;
  for (int64_t n = 0; n <= 4; ++n) {
    const MemoryLedger some = of("tp2 full block" + std::to_string(n));
    EXPECT_EQ(some.activations, Bytes(n * kInput + (4 - n) * layer)) << n;
    EXPECT_EQ(some.recomputed, Bytes(n > 0 ? layer - kInput : 0)) << n;
  }
  EXPECT_EQ(of("tp2 full block0").total(), of("tp2").total());
  EXPECT_EQ(of("tp2 full block4").total(), of("tp2 full").total());
  // Each of two chunks of a stage has two layers, of which one keeps all: of a stage's in flight,
  // two and one, as many.
  EXPECT_EQ(of("tp2 pp2 full block1").activations, Bytes(2 * (kInput + layer)));
  // Every third one is one of four.
  EXPECT_EQ(of("tp2 full every3").activations, Bytes(kInput + 3 * layer));
  EXPECT_EQ(of("tp2 full every2").activations, Bytes(2 * kInput + 2 * layer));
  EXPECT_EQ(of("tp2 full every5").activations, of("tp2").activations);
  EXPECT_EQ(of("tp2 full block1 partition-activations").activations, Bytes(kInput / 2 + 3 * layer));
}

// Counted over the chunks of a stage: with two layers in each of two chunks the third layer is the
// first one of the second chunk.
TEST(RecomputedLayersTest, WhichOnes) {
  TransformerConfig c = Model();
  c.layers = 8;
  const auto of = [&](const std::string& words) {
    const ParallelMapping m = Words("pp2 v2 mb1 " + words);
    std::string again;
    for (int32_t chunk = 0; chunk < 2; ++chunk) {
      int64_t count = 0;
      for (int64_t i = 0; i < 2; ++i) {
        const bool own = RunsAgain(c, m, 1, chunk, i);
        again += own ? '1' : '0';
        count += own ? 1 : 0;
      }
      EXPECT_EQ(LayersAgain(c, m, 1, chunk), count) << words;
    }
    return again;
  };
  EXPECT_EQ(of("none"), "0000");
  EXPECT_EQ(of("full"), "1111");
  EXPECT_EQ(of("full block1"), "1010");
  EXPECT_EQ(of("full block2"), "1111");
  EXPECT_EQ(of("full every2"), "0101");
  EXPECT_EQ(of("full every3"), "0010");
  EXPECT_EQ(of("full every5"), "0000");
}

// Each of four layers that is recomputed takes its forward pass longer, and no other; what ends an
// iteration is the same.
TEST(RecomputedLayersTest, TimeGrowsByEachLayer) {
  const auto of = [](const std::string& words) {
    return EstimateIteration(Model(), Words(words, 4), Cluster())->time;
  };
  for (const std::string degrees : {"tp2 ", "pp2 ", "pp2 v2 ", "tp2 sp pp2 zb-h1 "}) {
    const SimTime none = of(degrees + "none"), full = of(degrees + "full");
    EXPECT_EQ(of(degrees + "full block0"), none) << degrees;
    SimTime before = none;
    const int most = degrees == "tp2 " ? 4 : degrees == "pp2 v2 " ? 1 : 2;
    for (int n = 1; n <= most; ++n) {
      const SimTime some = of(degrees + "full block" + std::to_string(n));
      EXPECT_GT(some, before) << degrees << n;
      before = some;
    }
    EXPECT_EQ(before, full) << degrees;
  }
  const PassTimes kept = Times(Model(), Words("none")), again = Times(Model(), Words("full"));
  const SimTime each = again.layer_backward - kept.layer_backward;
  // Four micro-batches, one after another.
  EXPECT_EQ(of("full block3") - of("none"), SimTime::FromPs(each.ps() * 3 * 4));
  EXPECT_EQ(of("full every2") - of("none"), SimTime::FromPs(each.ps() * 2 * 4));
}

// Of a model whose dense layers come first, these are the first that run again.
TEST(RecomputedLayersTest, LayersOfTwoKinds) {
  TransformerConfig c = Model(8);
  c.dense_first = 1;
  c.dense_ffn = 8192;
  const ModelLayers layers(c);
  const auto stash = [&](const char* words) { return ChunkStash(layers, Words(words), 0, 0); };
  const double dense = LayerStash(WithLayersOf(c, true), Words("none"), Recompute::kNone);
  const double routed = LayerStash(WithLayersOf(c, false), Words("none"), Recompute::kNone);
  EXPECT_EQ(stash("none"), dense + 3 * routed);
  EXPECT_EQ(stash("full block1"), kInput + 3 * routed);
  EXPECT_EQ(stash("full block2"), 2 * kInput + 2 * routed);
  const auto time = [&](const char* words) {
    return EstimateIteration(c, Words(words, 1), Cluster())->time;
  };
  const SimTime more = Times(WithLayersOf(c, true), Words("full")).layer_backward -
                       Times(WithLayersOf(c, true), Words("none")).layer_backward;
  EXPECT_EQ(time("full block1") - time("none"), more);
}

// The allocator's walk keeps what the ledger says, but for sizes that it rounds.
TEST(RecomputedLayersTest, AllocationsOfSome) {
  const auto peak = [](const char* words) {
    return FollowAllocations(Model(), Words(words), 0)->allocated.count();
  };
  const auto all = static_cast<double>(peak("tp2") - peak("tp2 full block3"));
  const auto ledger = [](const char* words) {
    return MemoryOf(Model(), Words(words)).activations.count();
  };
  EXPECT_GT(all, 0);
  EXPECT_LT(peak("tp2 full block3"), peak("tp2 full block1"));
  EXPECT_EQ(peak("tp2 full block4"), peak("tp2 full"));
  EXPECT_EQ(peak("tp2 full block0"), peak("tp2"));
  const auto kept = static_cast<double>(ledger("tp2") - ledger("tp2 full block3"));
  EXPECT_LE(all, kept);
}

constexpr int64_t kTokens = 512;

// kept_activations_test.cpp's: latent attention of 4 heads and a gated layer of 2,048; sizes below
// count a token's elements.
TransformerConfig Latent(int64_t experts = 0) {
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
  c.experts = experts;
  c.top_k = experts > 0 ? 2 : 0;
  c.shared_ffn = experts > 0 ? 512 : 0;
  c.vocabulary = 1000;
  c.sequence = kTokens;
  c.dtype = DType::kBFloat16;
  c.fused_attention = true;
  return c;
}

double Kept(const TransformerConfig& c, const std::string& words) {
  const ParallelMapping m = Words(words);
  return LayerStash(c, m, m.recompute) / kTokens / 2;
}

// What enters, its norm's output, latents and theirs, heads, context, residual and its norm's
// output; then both branches and the activation.
TEST(RecomputedModulesTest, BytesOfALayer) {
  constexpr double latents = 256 + 128, heads = 384 + 384 + 256;
  constexpr double attention = 4 * 1024 + 2 * latents + heads + 256, up = 4096, activated = 2048;
  const TransformerConfig c = Latent();
  const auto kept = [&](const char* modules) {
    return Kept(c, std::string("recompute=") + modules);
  };
  EXPECT_EQ(Kept(c, "none"), attention + up + activated);
  // The second norm is the feed-forward layer's, the first one the latents'.
  EXPECT_EQ(kept("mlp"), attention - 1024);
  EXPECT_EQ(kept("layernorm"), attention - 1024 + up + activated);
  EXPECT_EQ(kept("mlp+layernorm"), attention - 2 * 1024);
  // Attention's own output is the projection's input, which is kept.
  EXPECT_EQ(kept("core_attn+mlp"), attention - 1024);
  // Norms of latents and heads follow from latents and the part of keys that is rotated.
  EXPECT_EQ(kept("mla_up_proj"), attention - latents - heads + 32 + up + activated);
  // The ones of attention and of the feed-forward layer are not there at once.
  const auto again = [&](const char* modules) {
    const ParallelMapping m = Words(std::string("recompute=") + modules);
    const MemoryLedger layers = StageMemoryAt(StageMoment::kLayers, ModelLayers(c), m, 0);
    return static_cast<double>(layers.recomputed.count()) / kTokens / 2;
  };
  EXPECT_EQ(again("mlp"), 1024 + up + activated);
  EXPECT_EQ(again("mla_up_proj"), latents + heads);
  EXPECT_EQ(again("mla_up_proj+mlp"), 1024 + up + activated);
  EXPECT_EQ(again("layernorm+mlp"), 1024 + up + activated);
}

// Two experts a token and a shared one of 512: both branches and the activation of each, what is
// dispatched and what experts give, and the router's.
TEST(RecomputedModulesTest, BytesOfALayerWithExperts) {
  const TransformerConfig c = Latent(8);
  const auto kept = [&](const char* modules) {
    return Kept(c, std::string("recompute=") + modules);
  };
  const double all = Kept(c, "none");
  EXPECT_EQ(all - kept("moe_act"), 2 * 2048);
  EXPECT_EQ(all - kept("shared_experts"), 2 * 512 + 512);
  // The norm before routers is no part of what follows.
  EXPECT_EQ(kept("moe"), Kept(Latent(), "recompute=mlp") + 1024);
  EXPECT_EQ(all - kept("layernorm"), 2 * 1024);
  EXPECT_EQ(all - kept("moe_act+shared_experts"), 2 * 2048 + 3 * 512);
}

// Of plain attention, scores and what follows from them run again with it, and are not kept: as
// selective recomputation has it, which core_attn alone is.
TEST(RecomputedModulesTest, AttentionBesideOthers) {
  TransformerConfig c = Model();
  c.fused_attention = false;
  EXPECT_EQ(Words("recompute=core_attn"), Words("selective"));
  const double none = Kept(c, "none"), attention = Kept(c, "selective");
  const double mlp = Kept(c, "recompute=mlp");
  EXPECT_LT(attention, none);
  EXPECT_EQ(none - Kept(c, "recompute=core_attn+mlp"), none - attention + none - mlp);
  const auto backward = [&](const char* words) { return Times(c, Words(words)).layer_backward; };
  EXPECT_EQ(
      (backward("recompute=core_attn+mlp") - backward("none")).ps() / 1000,
      (backward("selective") - backward("none") + backward("recompute=mlp") - backward("none"))
              .ps() /
          1000);
}

// 8 h^2 weights of the feed-forward layer are 16 h^2 FLOP a token; of tensor parallelism its output
// is reduced again, and under sequence parallelism its input is gathered.
TEST(RecomputedModulesTest, WhatRunsAgain) {
  const ClusterParameters p = GemmsAlone();
  const auto times = [&](const char* words) { return Times(Model(), Words(words), p); };
  const double seconds = 16 * kH2 * 1024 / 100e12;
  EXPECT_NEAR((times("recompute=mlp").layer_backward - times("none").layer_backward).seconds(),
              seconds, 1e-3 * seconds);
  EXPECT_EQ(times("recompute=mlp").layer_forward, times("none").layer_forward);
  for (const std::string degrees : {"tp2 ", "tp2 sp "}) {
    const auto reductions = [&](const std::string& words) {
      return Reductions(times((degrees + words).c_str()), false);
    };
    EXPECT_EQ(reductions("recompute=mlp") - reductions("none"), 1) << degrees;
    EXPECT_EQ(reductions("full") - reductions("none"), 2) << degrees;
  }
}

// Tokens go to their experts and back once more with moe, as with full, and not with moe_act.
TEST(RecomputedModulesTest, ExpertsExchangeAgain) {
  const auto count = [](const char* words) {
    int64_t all = 0;
    for (const PassExchange& e : Times(Model(8), Words(words)).layer_exchanges.backward) {
      if (OfExperts(e.group)) all += e.count;
    }
    return all;
  };
  EXPECT_EQ(count("dp4 ep4 recompute=moe"), count("dp4 ep4 full"));
  EXPECT_GT(count("dp4 ep4 recompute=moe"), count("dp4 ep4"));
  EXPECT_EQ(count("dp4 ep4 recompute=moe_act"), count("dp4 ep4"));
}

TEST(RecomputedModulesTest, WordsThatCannotBe) {
  const auto fault = [](const char* words, const TransformerConfig& c = Model()) {
    return std::string(CheckMapping(c, Words(words), 0).message());
  };
  EXPECT_THAT(fault("block2"), HasSubstr("full would do"));
  EXPECT_THAT(fault("selective every2"), HasSubstr("full would do"));
  EXPECT_THAT(fault("full block2 uniform2"), HasSubstr("say one"));
  EXPECT_THAT(fault("pp2 full block3"), HasSubstr("block3 is more than the 2 trained"));
  EXPECT_EQ(fault("pp2 full block2 offload-activations"), "");
  EXPECT_THAT(fault("recompute=moe+mlp"), HasSubstr("recompute=moe would change nothing"));
  EXPECT_THAT(fault("recompute=mlp", Model(8)), HasSubstr("recompute=mlp would change nothing"));
  EXPECT_THAT(fault("recompute=layernorm"), HasSubstr("recompute=layernorm would change nothing"));
  EXPECT_THAT(fault("recompute=moe+moe_act", Model(8)), HasSubstr("recompute=moe_act would"));
  EXPECT_THAT(fault("dp4 ep4 ep-overlap recompute=moe", Model(8)), HasSubstr("ep-overlap"));
  EXPECT_EQ(fault("dp4 ep4 ep-overlap recompute=moe_act", Model(8)), "");
  ParallelMapping unnamed;
  unnamed.recompute = Recompute::kModules;
  EXPECT_THAT(CheckMapping(Model(), unnamed, 0).message(), HasSubstr("no module is named"));
  EXPECT_THAT(IdleChoice(Words("full block0")), HasSubstr("none says it"));
  EXPECT_THAT(IdleChoice(Words("full every1")), HasSubstr("full says it"));
  for (const char* words : {"recompute=", "recompute=mlp+", "recompute=mlp+mlp", "recompute=full",
                            "recompute=attn", "modules", "full block-1", "full block"}) {
    EXPECT_FALSE(ParseMapping(words, 8, "test").ok()) << words;
  }
  EXPECT_FALSE(ParseMapping("full recompute=mlp", 8, "test").ok());
  EXPECT_EQ(ToString(Words("recompute=moe_act+core_attn")),
            "tp1 pp1 dp1 mb1 v1 recompute=core_attn+moe_act");
  EXPECT_EQ(ToString(Words("full block3")), "tp1 pp1 dp1 mb1 v1 full block3");
}

}  // namespace
}  // namespace foretrace
