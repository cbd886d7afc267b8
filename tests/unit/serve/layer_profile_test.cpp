#include "simulator/serve/layer_profile.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>

#include "simulator/base/error.h"
#include "tests/unit/serve/folder_fixture.h"

namespace foretrace::serve {
namespace {

// Between measured points along the line; below the first as the first; beyond the last flagged.
TEST(Curve, IsLinearBetweenPoints) {
  Curve curve;
  curve.Add(20, 60), curve.Add(10, 40), curve.Add(20, 80);  // two runs of 20: 70
  ASSERT_TRUE(curve.Finish().ok());
  EXPECT_DOUBLE_EQ(curve.At(15).us, 55);
  EXPECT_DOUBLE_EQ(curve.At(5).us, 40);
  EXPECT_DOUBLE_EQ(curve.At(30).us, 100);
  EXPECT_TRUE(curve.At(30).extrapolated);
  EXPECT_FALSE(curve.At(20).extrapolated);
}

// A grid that is linear in all: 5 + chunk (1 + 0.01 cached) + 2 decodes + 0.1 decodes cached.
TEST(AttentionGrid, ChunksOfSeveralRequestsAddUp) {
  const auto time = [](double chunk, double cached, double decodes, double each) {
    return 5 + chunk * (1 + 0.01 * (cached + 0.5 * chunk)) + decodes * (2 + 0.1 * each);
  };
  AttentionGrid grid;
  for (const double chunk : {0, 100, 200, 400}) {
    for (const double cached : {0, 100, 400, 1000}) {
      if (chunk == 0 && cached > 0) continue;
      for (const double decodes : {0, 1, 2, 4}) {
        for (const double each : {0, 10, 100, 1000}) {
          if ((decodes == 0) != (each == 0) || chunk + decodes == 0) continue;
          // What does not fit in memory, and a value of one axis that was measured elsewhere alone.
          if (chunk > 0 && decodes == 4 && each == 1000) continue;
          if (chunk == 200 && cached == 100) continue;
          grid.Add(chunk, cached, decodes, each, time(chunk, cached, decodes, each));
        }
      }
    }
  }
  ASSERT_TRUE(grid.Finish().ok());
  StepBatch batch;
  batch.prefills = {{200, 100}};
  EXPECT_NEAR(grid.At(batch).us, time(200, 100, 0, 0), 1e-9);
  // 100 new tokens over nothing and 100 over 300: queries times keys are 100 * 50 + 100 * 350, as
  // of 200 over 100.
  batch.prefills = {{100, 0}, {100, 300}};
  EXPECT_NEAR(grid.At(batch).us, time(200, 100, 0, 0), 1e-9);
  // Two fresh prompts of 100 do half of what one of 200 does between queries and keys.
  batch.prefills = {{100, 0}, {100, 0}};
  EXPECT_NEAR(grid.At(batch).us, 5 + 200 + 0.01 * 2 * 5000, 1e-9);
  batch.AddDecode(1000), batch.AddDecode(1000), batch.AddDecode(1000), batch.AddDecode(1000);
  batch.prefills = {{200, 100}};
  EXPECT_NEAR(grid.At(batch).us, time(200, 100, 4, 1000), 1e-9);
  batch.Clear();
  batch.AddDecode(200), batch.AddDecode(400);
  EXPECT_NEAR(grid.At(batch).us, time(0, 0, 2, 300), 1e-9);
}

// Of 4 experts of which each token is routed to 1: two tokens meet at the same with a chance of
// 1/4.
TEST(LayerProfile, ExpertsThatTokensVisit) {
  EXPECT_DOUBLE_EQ(ActivatedExperts(1, 4, 1), 1);
  EXPECT_DOUBLE_EQ(ActivatedExperts(2, 4, 1), 1.75);
}

// Decodes of unequal lengths were measured a quarter (of two) and three quarters (of eight) of the
// way from their mean to their maximum. Half of them have 100 tokens, half 300: two count as of
// 200 + 100 / 4 each, four, half way between two and eight by their logarithms, as of 200 + 100
// / 2. Beside a chunk another share was measured: all.
TEST(AttentionGrid, UnequalLengthsLieBetweenMeanAndMaximum) {
  AttentionGrid grid;
  for (const double decodes : {1, 8}) {
    for (const double each : {1, 1000}) grid.Add(0, 0, decodes, each, 0.1 * decodes * each);
  }
  grid.Add(10, 0, 0, 0, 7), grid.Add(20, 0, 0, 0, 7);
  grid.SetSkew({{0, 2, 0.25}, {0, 8, 0.75}, {16, 2, 1.0}});
  ASSERT_TRUE(grid.Finish().ok());
  StepBatch batch;
  batch.AddDecode(100), batch.AddDecode(300);
  EXPECT_NEAR(grid.At(batch).us, 0.1 * 2 * 225, 1e-9);
  batch.AddDecode(100), batch.AddDecode(300);
  EXPECT_NEAR(grid.At(batch).us, 0.1 * 4 * 250, 1e-9);  // half way from 2 to 8: a share of a half
  batch.prefills = {{10, 0}};
  EXPECT_NEAR(grid.At(batch).us, 7 + 0.1 * 4 * 300, 1e-9);
}

TEST_F(Folder, MistakesInProfilesAreNamed) {
  Write("dense.csv", "layer,tokens,time_us\nqkv_proj,1,5\nqkv_proj,x,6\n");
  EXPECT_NE(ReadLayerProfile(path_, 1).status().message().find(
                "dense.csv:3: tokens 'x' is not a number from 1"),
            std::string_view::npos);
  Write("dense.csv", "layer,time_us\nqkv_proj,5\n");
  EXPECT_NE(ReadLayerProfile(path_, 1).status().message().find("no column 'tokens'"),
            std::string_view::npos);
  Write("dense.csv", "layer,tokens,time_us\n");
  EXPECT_NE(ReadLayerProfile(path_, 1).status().message().find("no rows"), std::string_view::npos);
}

// One layer of a model, us: qkv_proj 10 and its norms of queries and keys 4 at two tokens and 2 at
// one, attention 20, output layer 100, experts 8 an activated one.
class Profile : public Folder {
 protected:
  void WriteDegree(const std::string& degree, const std::string& more) {
    std::filesystem::create_directories(path_ + "/G_M_" + degree);
    Write("G_M_" + degree + "/dense.csv",
          "layer,tokens,time_us\nqkv_proj,1,10\nqkv_proj,2,10\nqkv_proj,8,10\n" + more);
    Write("G_M_" + degree + "/per_sequence.csv", "layer,sequences,time_us\nlm_head,1,100\n");
    Write("G_M_" + degree + "/attention.csv",
          "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n"
          "0,0,1,16,20\n0,0,2,16,20\n4,0,0,0,20\n8,0,0,0,20\n");
  }
};

TEST_F(Profile, WholeLayersAreDividedAmongRanks) {
  const std::string norms = "qk_norm,1,2\nqk_norm,2,4\n";
  WriteDegree("tp1", norms);
  WriteDegree("tp2", norms);
  Write("G_M_tp1/moe.csv", "tokens,activated_experts,time_us\n1,2,16\n2,2,16\n1,4,32\n2,4,32\n");
  auto profile = ReadLayerProfile(path_ + "/G_M_tp2", 2);
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_EQ(profile->expert_ranks, 2);
  EXPECT_EQ(profile->head_norm_ranks, 2);
  EngineConfig engine;
  StepBatch batch;
  batch.AddDecode(16), batch.AddDecode(16);
  const auto step = MakeProfileStepModel(std::make_shared<LayerProfile>(*profile),
                                         {1, 64, 128, 4, 2}, engine, nullptr);
  // Two tokens that are each routed to 2 of 4 activate 4 (1 - 1/4) = 3, 1.5 a rank: 16 * 1.5 / 2;
  // norms of two tokens' heads take what one token's of all do, once for queries and once for keys.
  EXPECT_NEAR(step->Time(batch).us(), 10 + 2 * 2 + 20 + 100 + 12, 1e-9);
  // Of two engines' four tokens 4 (1 - 1/16) = 3.75 experts are activated, a quarter on each rank.
  const auto both = MakeProfileStepModel(std::make_shared<LayerProfile>(*profile),
                                         {1, 64, 128, 4, 2, 2}, engine, nullptr);
  batch.peer_tokens = {2};
  EXPECT_NEAR(both->Time(batch).us(), 10 + 2 * 2 + 20 + 100 + 16 * 0.9375 / 2, 1e-9);
  // Measured of the rank's own part, they count as they stand.
  WriteDegree("tp2", "qk_norm,1,1\nqk_norm,2,2\n");
  profile = ReadLayerProfile(path_ + "/G_M_tp2", 2);
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_EQ(profile->head_norm_ranks, 1);
  EXPECT_NE(ReadLayerProfile(path_ + "/G_M_tp2", 1).status().message().find("parallelism 2"),
            std::string_view::npos);
}

// Of 64 + 4 bytes of 2 a token there and 64 of 2 back, 1 us a KiB: of three tokens of one engine
// and one of another four; replayed as a graph of four tokens both have as many, which are eight.
class KibExchange : public EngineExchange {
 public:
  Estimate Gather(int64_t bytes) const override {
    return {SimTime::FromUs(static_cast<double>(bytes) / 1024), EstimateSource::kCalibrated, false};
  }
  Estimate Scatter(int64_t bytes) const override { return Gather(bytes); }
};

TEST_F(Profile, EnginesThatShareExpertsExchangeTokens) {
  WriteDegree("tp1", "");
  Write("G_M_tp1/moe.csv", "tokens,activated_experts,time_us\n1,2,16\n2,2,16\n1,4,32\n2,4,32\n");
  auto profile = ReadLayerProfile(path_ + "/G_M_tp1", 1);
  ASSERT_TRUE(profile.ok()) << profile.status();
  const auto shared = std::make_shared<LayerProfile>(*std::move(profile));
  StepBatch batch;
  batch.AddDecode(16);
  batch.peer_tokens = {3};
  const auto sent = [&](const EngineConfig& engine) {
    return MakeProfileStepModel(shared, {1, 64, 128, 4, 2, 2}, engine, nullptr,
                                std::make_shared<KibExchange>())
        ->Time(batch)
        .parts[static_cast<size_t>(StepPart::kCommunication)]
        .us();
  };
  EngineConfig engine;
  EXPECT_NEAR(sent(engine), 4 * (68 + 64) * 2 / 1024.0, 1e-9);
  engine.graph_sizes = {1, 4};
  EXPECT_NEAR(sent(engine), 8 * (68 + 64) * 2 / 1024.0, 1e-9);
}

// A sum of three tokens' 64 elements of 2 bytes after the embedding, attention and the feed-forward
// part, 1 us a KiB; and of the 128 words' logits of 2 bytes at each position that is sampled from.
class KibRanks : public RankExchange {
 public:
  Estimate Sum(int64_t bytes) const override {
    return {SimTime::FromUs(static_cast<double>(bytes) / 1024), EstimateSource::kCalibrated, false};
  }
  Estimate Gather(int64_t bytes) const override { return Sum(10 * bytes); }
};

TEST_F(Profile, RanksSumActivationsAndGatherLogits) {
  WriteDegree("tp1", "");
  auto profile = ReadLayerProfile(path_ + "/G_M_tp1", 1);
  ASSERT_TRUE(profile.ok()) << profile.status();
  const auto step = MakeProfileStepModel(std::make_shared<LayerProfile>(*std::move(profile)),
                                         {1, 64, 128, 0, 0}, EngineConfig(), nullptr, nullptr);
  const auto ranks =
      MakeProfileStepModel(std::make_shared<LayerProfile>(*ReadLayerProfile(path_ + "/G_M_tp1", 1)),
                           {1, 64, 128, 0, 0}, EngineConfig(), std::make_shared<KibRanks>());
  StepBatch batch;
  batch.AddDecode(16), batch.AddDecode(16), batch.AddDecode(16);
  const auto sent = [&] {
    EXPECT_EQ(step->Time(batch).parts[static_cast<size_t>(StepPart::kCommunication)], RealUs());
    return ranks->Time(batch).parts[static_cast<size_t>(StepPart::kCommunication)].us();
  };
  EXPECT_NEAR(sent(), (3 * 3 * 64 * 2 + 10 * 3 * 128 * 2) / 1024.0, 1e-9);
  // Of a prompt's chunk one position, of decodes that check a draft's two tokens three each.
  batch.Clear();
  batch.prefills = {{4, 0}};
  EXPECT_NEAR(sent(), (3 * 4 * 64 * 2 + 10 * 1 * 128 * 2) / 1024.0, 1e-9);
  batch.AddDecode(16);
  batch.tokens_per_decode = 3;
  EXPECT_NEAR(sent(), (3 * 7 * 64 * 2 + 10 * 4 * 128 * 2) / 1024.0, 1e-9);
}

// Where mean and maximum are the same the profiler divides noise by nothing.
TEST_F(Profile, SharesOfNoiseAreRead) {
  WriteDegree("tp1", "");
  auto profile = ReadLayerProfile(path_ + "/G_M_tp1", 1);
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_TRUE(
      AddSkew("skew.csv", "pc,n,alpha\n0,2,-4512395720392.0\n0,2,\n0,2,0.5\n0,2,0.7\n", *profile)
          .ok());
}

TEST_F(Profile, ExpertsOfOneSideAloneAreRefused) {
  WriteDegree("tp1", "");
  const auto profile = ReadLayerProfile(path_ + "/G_M_tp1", 1);
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_TRUE(CheckProfile(*profile, {1, 64, 128, 0, 0}).ok());
  EXPECT_NE(CheckProfile(*profile, {1, 64, 128, 4, 2}).message().find("no moe.csv"),
            std::string_view::npos);
}

// Replayed, the kernels of a layer follow each other 1 us sooner: of decodes alone qkv_proj and
// the two of attention, beside a prompt qkv_proj alone, beyond the largest graph none. What is
// outside of graphs stays.
TEST_F(Profile, GraphsSaveAtEachKernel) {
  WriteDegree("tp1", "");
  auto profile = ReadLayerProfile(path_ + "/G_M_tp1", 1);
  ASSERT_TRUE(profile.ok()) << profile.status();
  EngineConfig engine;
  engine.graph_sizes = {1, 6};
  engine.graph_saves_per_kernel = SimTime::FromUs(1);
  const auto step = MakeProfileStepModel(std::make_shared<LayerProfile>(*std::move(profile)),
                                         {1, 64, 128, 0, 0}, engine, nullptr);
  StepBatch batch;
  batch.AddDecode(16);
  EXPECT_NEAR(step->Time(batch).us(), 130 - 3, 1e-9);
  batch.Clear();
  batch.prefills = {{4, 0}};
  EXPECT_NEAR(step->Time(batch).us(), 130 - 1, 1e-9);
  batch.prefills = {{8, 0}};
  EXPECT_NEAR(step->Time(batch).us(), 130, 1e-9);
}

}  // namespace
}  // namespace foretrace::serve
