#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <memory>

#include "simulator/serve/iteration_table.h"
#include "simulator/serve/layer_profile.h"
#include "simulator/serve/run_validation.h"
#include "tests/support/real_data.h"

namespace foretrace::serve {
namespace {

const std::string kServing = "serving/llmservingsim/";

// Llama-3.1-8B on one RTX 4090: nothing but the layers' profile is known of its times.
TEST(MeasuredRun, LlamaOnOneDeviceFromItsLayers) {
  const std::string folder = RealData(kServing + "runs/RTX4090_Llama-3.1-8B");
  FORETRACE_SKIP_WITHOUT(folder);
  auto run = ReadMeasuredRun(folder);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->engine.kv_blocks, 2588);
  EXPECT_EQ(run->trace.requests.size(), 300);
  const std::string workload = RealData(kServing + "workloads/sharegpt-llama-3.1-8b-300-sps10.csv");
  ASSERT_TRUE(AddSharedPrefixes(workload, 16, run->trace).ok());
  auto profile = ReadLayerProfile(RealData(kServing + "profiles/RTX4090_Llama-3.1-8B_tp1"));
  ASSERT_TRUE(profile.ok()) << profile.status();
  const auto step = MakeProfileStepModel(std::make_shared<LayerProfile>(*std::move(profile)),
                                         {32, 4096, 0, 0}, run->engine, nullptr);
  const auto result = ValidateRun(*run, step);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_LT(std::abs(result->tpot_mean_error), 2);
  EXPECT_LT(std::abs(result->ttft_mean_error), 10);
  EXPECT_LT(std::abs(result->ttft_p90_error), 15);
  EXPECT_LT(std::abs(result->throughput_error), 3);
}

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

// Of 4 experts of which each token visits 1: two tokens meet at the same with a chance of 1/4.
TEST(LayerProfile, ExpertsThatTokensVisit) {
  EXPECT_DOUBLE_EQ(VisitedExperts(1, 4, 1), 1);
  EXPECT_DOUBLE_EQ(VisitedExperts(2, 4, 1), 1.75);
}

// Prompts of 100, 200 and 400 tokens take 10, 20 and 40 ms: 300 take 30 by the power law; tokens of
// 1 and 4 sequences 20 and 50 ms: of 2 30.
TEST(IterationModel, PowersBetweenPrompts) {
  const auto model = IterationModel::Fit(
      {{"d", 1, 100, 10, 10, 20}, {"d", 1, 200, 10, 20, 20}, {"d", 4, 100, 10, 40, 50}});
  ASSERT_TRUE(model.ok());
  EXPECT_NEAR(model->PromptMs(300), 30, 1e-9);
  EXPECT_NEAR(model->TokenMs(2), 30, 1e-9);
}

TEST(IterationModel, SplitwiseHeldOut) {
  const std::string table = RealData("serving/splitwise_perf_model.csv");
  FORETRACE_SKIP_WITHOUT(table);
  const auto rows = ReadIterationTable(table);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->size(), 95);
  const auto errors = HoldOutThirds(*rows);
  ASSERT_TRUE(errors.ok());
  EXPECT_LT(errors->prompt_median_percent, 5);
  EXPECT_LT(errors->token_median_percent, 5);
}

class Folder : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(path_); }
  void TearDown() override { std::filesystem::remove_all(path_); }
  std::string Write(const std::string& name, const std::string& text) {
    std::ofstream(path_ + "/" + name) << text;
    return path_ + "/" + name;
  }
  const std::string path_ =
      (std::filesystem::temp_directory_path() / "foretrace_serving_test").string();
};

TEST_F(Folder, MistakesInProfilesAreNamed) {
  Write("dense.csv", "layer,tokens,time_us\nqkv_proj,1,5\nqkv_proj,x,6\n");
  EXPECT_NE(ReadLayerProfile(path_).status().message().find(
                "dense.csv:3: tokens 'x' is not a number from 1"),
            std::string_view::npos);
  Write("dense.csv", "layer,time_us\nqkv_proj,5\n");
  EXPECT_NE(ReadLayerProfile(path_).status().message().find("no column 'tokens'"),
            std::string_view::npos);
  Write("dense.csv", "layer,tokens,time_us\n");
  EXPECT_NE(ReadLayerProfile(path_).status().message().find("no rows"), std::string_view::npos);
}

TEST_F(Folder, MistakesInRunsAreNamed) {
  const std::string begin = "{\"model\": \"m\", \"vllm_version\": \"";
  Write("meta.json", begin + "0.3.1\", \"engine_kwargs\": {}}");
  EXPECT_NE(ReadMeasuredRun(path_).status().message().find("vllm-0.3"), std::string_view::npos);
  Write("meta.json", begin + "0.19.0\", \"engine_kwargs\": {\"max_model_len\": 100}}");
  Write("requests.csv",
        "input_tokens,output_tokens,client_arrival_s,queued_s,last_token_s,ttft_s,tpot_s,e2e_s\n"
        "5,-1,0,0,1,1,1,1\n");
  EXPECT_NE(ReadMeasuredRun(path_).status().message().find("requests.csv:2: output_tokens '-1'"),
            std::string_view::npos);
}

}  // namespace
}  // namespace foretrace::serve
