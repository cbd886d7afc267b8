#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>

#include "simulator/base/error.h"
#include "simulator/serve/iteration_table.h"
#include "simulator/serve/layer_profile.h"
#include "simulator/serve/memory_ledger.h"
#include "simulator/serve/operator_table.h"
#include "simulator/serve/run_validation.h"
#include "simulator/workload/workload_yaml.h"
#include "tests/support/real_data.h"

namespace foretrace::serve {
namespace {

const std::string kServing = "serving/llmservingsim/";

// Llama-3.1-8B on one RTX 4090: nothing but the layers' profile is known of its times. Decodes of
// unequal lengths, which are slower, and graphs' replays, which are faster, are both left out here
// (golden validate_serving has both).
TEST(MeasuredRun, LlamaOnOneDeviceFromItsLayers) {
  const std::string folder = RealData(kServing + "runs/RTX4090_Llama-3.1-8B");
  FORETRACE_SKIP_WITHOUT(folder);
  auto run = ReadMeasuredRun(folder);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->engine.kv_blocks, 2588);
  EXPECT_EQ(run->trace.requests.size(), 300);
  const std::string workload = RealData(kServing + "workloads/sharegpt-llama-3.1-8b-300-sps10.csv");
  ASSERT_TRUE(AddSharedPrefixes(workload, *run).ok());
  auto profile = ReadLayerProfile(RealData(kServing + "profiles/RTX4090_Llama-3.1-8B_tp1"), 1);
  ASSERT_TRUE(profile.ok()) << profile.status();
  run->engine.graph_saves_per_kernel = SimTime();
  const auto step = MakeProfileStepModel(std::make_shared<LayerProfile>(*std::move(profile)),
                                         {32, 4096, 0, 0}, run->engine, nullptr);
  const auto result = ValidateRun(*run, step);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_LT(std::abs(result->tpot_mean_error), 2);
  EXPECT_LT(std::abs(result->ttft_mean_error), 10);
  EXPECT_LT(std::abs(result->ttft_p90_error), 15);
  EXPECT_LT(std::abs(result->throughput_error), 3);
  // Scheduled asynchronously, the host's time does not matter where it is shorter than a step.
  for (const double us : {0.0, 5000.0}) {
    run->engine.host_step = SimTime::FromUs(us);
    const auto other = ValidateRun(*run, step);
    ASSERT_TRUE(other.ok()) << other.status();
    EXPECT_NEAR(other->tpot_mean_error, result->tpot_mean_error, 0.7) << us;
    EXPECT_NEAR(other->throughput_error, result->throughput_error, 0.7) << us;
  }
}

// The engine's own count of its blocks, from weights and the published peak of its sampler.
TEST(MemoryLedger, BlocksOfTheMeasuredRun) {
  const std::string folder = RealData(kServing + "runs/RTX4090_Llama-3.1-8B");
  FORETRACE_SKIP_WITHOUT(folder);
  const auto run = ReadMeasuredRun(folder);
  ASSERT_TRUE(run.ok()) << run.status();
  const auto file = FindShipped(kWorkloads, "llama3.1-8b");
  ASSERT_TRUE(file.ok());
  const auto model = LoadModel(*file);
  ASSERT_TRUE(model.ok());
  const MemoryLedger ledger = MakeLedger(*model->transformer, {}, run->engine, run->device_memory);
  EXPECT_NEAR(static_cast<double>(ledger.blocks) / static_cast<double>(run->engine.kv_blocks), 1,
              0.03);
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

// Of times n k all but one lie on the lines: 2 * 2 is 20 % more than the 4 that its neighbours in n
// (2 and 6) and in k (2 and 6) say. Rows at the edge have neighbours on the other axis alone.
TEST(OperatorTable, ProductsBetweenTheirNeighbours) {
  std::string text = "gemm_dtype,n,k,m,latency_ms\n";
  for (const int n : {1, 2, 3}) {
    for (const int k : {1, 2, 3}) {
      text += fmt::format("bf16,{},{},8,{}\n", n, k, n == 2 && k == 2 ? 5 : n * k);
    }
  }
  EXPECT_TRUE(IsOperatorTable(text));
  const auto errors = HoldOutOperators("t.csv", text);
  ASSERT_TRUE(errors.ok()) << errors.status();
  ASSERT_EQ(errors->size(), 1);
  EXPECT_EQ((*errors)[0].rows, 9);
  EXPECT_EQ((*errors)[0].held_out, 5);  // without the corners
  EXPECT_NEAR((*errors)[0].median_percent, 0, 1e-9);
  EXPECT_NEAR((*errors)[0].p90_percent, 100 * 0.2 * 0.6, 1e-9);  // 0, 0, 0, 0, 20: at 3.6 of 4
}

// Four heads on one key of a batch of two do the work of eight on two of a batch of one; of twelve
// on three none does, and there is none beyond it.
TEST(OperatorTable, HeadsThatDoTheSameWork) {
  const auto errors =
      HoldOutOperators("t.csv",
                       "attn_dtype,num_heads,num_key_value_heads,batch_size,step,latency_ms\n"
                       "bf16,4,1,2,100,10\nbf16,8,2,1,100,8\nbf16,12,3,1,100,12\n");
  ASSERT_TRUE(errors.ok()) << errors.status();
  EXPECT_EQ((*errors)[0].held_out, 2);
  EXPECT_NEAR((*errors)[0].median_percent, (20 + 25) / 2.0, 1e-9);
}

// Four divisions of one shape of experts, whose times are 1, 2.2 and 4 ms at 1, 2 and 4 tokens: by
// powers 2 ms at 2 tokens, a tenth too low on every line, which the others say of each.
TEST(OperatorTable, ExpertsOfOneShapeMissAlike) {
  std::string table = "moe_dtype,moe_ep_size,num_tokens,latency_ms\n";
  for (const int ranks : {1, 2, 4, 8}) {
    for (const auto& [tokens, ms] : {std::pair{1, 1.0}, {2, 2.2}, {4, 4.0}}) {
      table += fmt::format("bfloat16,{},{},{}\n", ranks, tokens, ms * ranks);
    }
  }
  const auto errors = HoldOutOperators("t.csv", table);
  ASSERT_TRUE(errors.ok()) << errors.status();
  EXPECT_EQ(errors->front().held_out, 4);
  EXPECT_NEAR(errors->front().median_percent, 0, 1e-9);
}

TEST(OperatorTable, MistakesAreNamed) {
  const std::string header = "attn_dtype,num_heads,num_key_value_heads,step,latency_ms\n";
  EXPECT_FALSE(IsOperatorTable("a,b\n1,2\n"));
  EXPECT_NE(HoldOutOperators("t.csv", header + "bf16,4,x,1,1\n")
                .status()
                .message()
                .find("t.csv:2: num_key_value_heads 'x'"),
            std::string_view::npos);
  EXPECT_NE(HoldOutOperators("t.csv", header + "bf16,4,1,1\n")
                .status()
                .message()
                .find("t.csv:2: has 4 fields, the header 5"),
            std::string_view::npos);
  EXPECT_NE(HoldOutOperators("t.csv", header + "bf16,4,1,1,1\n")
                .status()
                .message()
                .find("nothing can be held out"),
            std::string_view::npos);
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
  EXPECT_NE(ReadLayerProfile(path_, 1).status().message().find(
                "dense.csv:3: tokens 'x' is not a number from 1"),
            std::string_view::npos);
  Write("dense.csv", "layer,time_us\nqkv_proj,5\n");
  EXPECT_NE(ReadLayerProfile(path_, 1).status().message().find("no column 'tokens'"),
            std::string_view::npos);
  Write("dense.csv", "layer,tokens,time_us\n");
  EXPECT_NE(ReadLayerProfile(path_, 1).status().message().find("no rows"), std::string_view::npos);
}

TEST_F(Folder, MistakesInRunsAreNamed) {
  const std::string begin = "{\"model\": \"m\", \"vllm_version\": \"";
  Write("meta.json", "{\"vllm_version\": \"0.19.0\"}");
  EXPECT_NE(ReadMeasuredRun(path_).status().message().find("'model': missing"),
            std::string_view::npos);
  Write("meta.json", begin + "0.19.0\", \"engine_kwargs\": [1]}");
  EXPECT_NE(ReadMeasuredRun(path_).status().message().find("must be a mapping"),
            std::string_view::npos);
  Write("meta.json", begin + "0.19.0\", \"engine_kwargs\": {\"max_num_seqs\": -3}}");
  EXPECT_NE(ReadMeasuredRun(path_).status().message().find("engine_kwargs.max_num_seqs"),
            std::string_view::npos);
  Write("meta.json", begin + "0.19.0\", \"engine_kwargs\": {\"max_model_len\": 100}}");
  const std::string header =
      "input_tokens,output_tokens,client_arrival_s,queued_s,first_token_s,last_token_s\n";
  Write("requests.csv", header + "5,-1,0,0,1,1\n");
  EXPECT_NE(ReadMeasuredRun(path_).status().message().find("requests.csv:2: output_tokens '-1'"),
            std::string_view::npos);
  Write("requests.csv", header + "5,2,0,3,1,4\n");
  EXPECT_NE(ReadMeasuredRun(path_).status().message().find("first token comes before"),
            std::string_view::npos);
  Write("requests.csv", header + "5,2,0,3,,\n");
  EXPECT_NE(ReadMeasuredRun(path_).status().message().find("no request of it finished"),
            std::string_view::npos);
}

// What the bench could not tell is null or a tag; what the engine resolved counts above what was
// asked; blocks are the sum over engines; captured graphs are none where it ran eagerly.
TEST_F(Folder, SettingsThatAreNotStated) {
  Write("requests.csv",
        "request,input_tokens,output_tokens,queued_s,first_token_s,last_token_s\n"
        "1,5,3,10,11,12\n2,5,3,12,,\n");
  Write("meta.json", R"({"model": "m", "vllm_version": "0.19.1rc0", "dataset_path": null,
      "engine_kwargs": {"tensor_parallel_size": 2, "data_parallel_size": 4, "max_num_seqs": 128,
                        "max_model_len": null},
      "kv_cache": {"num_gpu_blocks": 400, "enable_prefix_caching": null}, "hardware": {},
      "resolved_config": {"model_config": {"max_model_len": 77, "hf_config": "<Config>"},
          "scheduler_config": {"max_num_seqs": 64, "policy": "priority"},
          "compilation_config": {"cudagraph_capture_sizes": "<list len=67>",
                                 "cudagraph_mode": [2, 1]}}})");
  auto run = ReadMeasuredRun(path_);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->tensor_parallel, 2);
  EXPECT_EQ(run->data_parallel, 4);
  EXPECT_EQ(run->devices(), 8);
  EXPECT_EQ(run->engine.kv_blocks, 100);
  EXPECT_EQ(run->engine.max_num_seqs, 64);
  EXPECT_EQ(run->engine.max_model_len, 77);
  EXPECT_EQ(run->engine.policy, AdmissionPolicy::kPriority);
  EXPECT_TRUE(run->engine.prefix_caching);
  EXPECT_TRUE(run->engine.Captured(512, true));
  ASSERT_EQ(run->trace.requests.size(), 1);
  EXPECT_EQ(run->rows[0], 1);
  EXPECT_DOUBLE_EQ(run->measured[0].ttft, 1);
  EXPECT_DOUBLE_EQ(run->measured[0].tpot, 0.5);
  ASSERT_EQ(run->notes.size(), 1);
  EXPECT_NE(run->notes[0].find("1 of 2 requests"), std::string::npos);
  Write("meta.json", R"({"model": "m", "vllm_version": "0.25.0",
                         "engine_kwargs": {"enforce_eager": true}})");
  run = ReadMeasuredRun(path_);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->engine.name, "vllm-0.19");
  EXPECT_FALSE(run->engine.Captured(1, false));
  EXPECT_EQ(run->engine.kv_blocks, 0);
  EXPECT_EQ(run->engine.max_model_len, 0);
  EXPECT_NE(run->notes[0].find("0.25.0 is not described"), std::string::npos);
}

// The same run as a table and as the bench's lines, whose clocks begin elsewhere.
TEST_F(Folder, RunsAsLines) {
  Write("meta.json", R"({"model": "m", "vllm_version": "0.19.0"})");
  Write("requests.jsonl",
        "{\"request_id\": \"bench-4\", \"input_toks\": 7, \"output_toks\": 1, \"arrival_time\": "
        "1000.5, \"queued_ts\": 70, \"first_token_ts\": 71, \"last_token_ts\": 71}\n"
        "{\"request_id\": \"bench-3\", \"input_toks\": 5, \"output_toks\": 3, \"arrival_time\": "
        "1000.0, \"queued_ts\": 69.5, \"first_token_ts\": 70, \"last_token_ts\": 72}\n"
        "{\"request_id\": \"bench-5\", \"input_toks\": 5, \"output_toks\": 3, \"arrival_time\": "
        "null, "
        "\"queued_ts\": null, \"first_token_ts\": null, \"last_token_ts\": null}\n");
  const auto run = ReadMeasuredRun(path_);
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_EQ(run->trace.requests.size(), 2);
  EXPECT_EQ(run->trace.requests[0].arrival, SimTime::FromSeconds(0.5));
  EXPECT_EQ(run->rows[0], 4);
  EXPECT_DOUBLE_EQ(run->measured[1].tpot, 1);
  EXPECT_DOUBLE_EQ(run->seconds, 2.5);
}

// A run of the first requests of a workload; one of others is refused.
TEST_F(Folder, PrefixesOfTheFirstRequests) {
  const std::string workload =
      Write("workload.csv",
            "input_tokens,output_tokens,shared_prefix_tokens\n32,1,0\n48,2,32\n64,3,48\n");
  MeasuredRun run;
  run.engine.block_tokens = 16;
  run.trace.requests = {{SimTime(), 48, 2}};
  run.rows = {1};
  ASSERT_TRUE(AddSharedPrefixes(workload, run).ok());
  EXPECT_EQ(run.trace.requests[0].prefix_blocks, 3);
  EXPECT_EQ(run.trace.PrefixOf(run.trace.requests[0])[0], 0);
  run.rows = {0};
  EXPECT_FALSE(AddSharedPrefixes(workload, run).ok());
  run.rows = {3};
  EXPECT_FALSE(AddSharedPrefixes(workload, run).ok());
}

// One layer of a model, us: qkv_proj 10 and its norms of queries and keys 4 at two tokens and 2 at
// one, attention 20, output layer 100, experts 8 a visited one.
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
  const auto step = MakeProfileStepModel(std::make_shared<LayerProfile>(*profile), {1, 64, 4, 2},
                                         engine, nullptr);
  // Two tokens that each visit 2 of 4 visit 4 (1 - 1/4) = 3, 1.5 a rank: 16 * 1.5 / 2; norms of
  // two tokens' heads take what one token's of all do, once for queries and once for keys.
  EXPECT_NEAR(step->Time(batch).us(), 10 + 2 * 2 + 20 + 100 + 12, 1e-9);
  // Of two engines' four tokens 4 (1 - 1/16) = 3.75 experts are visited, a quarter on each rank.
  const auto both = MakeProfileStepModel(std::make_shared<LayerProfile>(*profile), {1, 64, 4, 2, 2},
                                         engine, nullptr);
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
class KibExchange : public ExpertExchange {
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
    return MakeProfileStepModel(shared, {1, 64, 4, 2, 2}, engine, nullptr,
                                std::make_shared<KibExchange>())
        ->Time(batch)
        .parts[static_cast<size_t>(StepPart::kCommunication)];
  };
  EngineConfig engine;
  EXPECT_NEAR(sent(engine), 4 * (68 + 64) * 2 / 1024.0, 1e-9);
  engine.graph_sizes = {1, 4};
  EXPECT_NEAR(sent(engine), 8 * (68 + 64) * 2 / 1024.0, 1e-9);
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
  EXPECT_TRUE(CheckProfile(*profile, {1, 64, 0, 0}).ok());
  EXPECT_NE(CheckProfile(*profile, {1, 64, 4, 2}).message().find("no moe.csv"),
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
                                         {1, 64, 0, 0}, engine, nullptr);
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
