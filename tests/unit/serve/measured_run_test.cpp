#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <memory>

#include "simulator/base/error.h"
#include "simulator/serve/iteration_table.h"
#include "simulator/serve/layer_profile.h"
#include "simulator/serve/memory_ledger.h"
#include "simulator/serve/operator_rows.h"
#include "simulator/serve/operator_table.h"
#include "simulator/serve/run_validation.h"
#include "simulator/workload/workload_yaml.h"
#include "tests/support/real_data.h"
#include "tests/unit/serve/folder_fixture.h"

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
                                         {32, 4096, 128256, 0, 0}, run->engine, nullptr);
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

// Prompts of 100, 200 and 400 tokens take 10, 20 and 40 ms: 300 take 30 by the power law; tokens of
// 1 and 4 sequences 20 and 50 ms: of 2 30.
TEST(IterationModel, PowersBetweenPrompts) {
  const auto model = IterationModel::Fit({{"d", 1, 100, 10, RealMs(10), RealMs(20)},
                                          {"d", 1, 200, 10, RealMs(20), RealMs(20)},
                                          {"d", 4, 100, 10, RealMs(40), RealMs(50)}});
  ASSERT_TRUE(model.ok());
  EXPECT_NEAR(model->PromptTime(300).ms(), 30, 1e-9);
  EXPECT_NEAR(model->TokenTime(2).ms(), 30, 1e-9);
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
TEST(OperatorTable, GemmsBetweenTheirNeighbours) {
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

// Of two columns a tile: exact along k, not along n.
TEST(OperatorTable, GemmsGrowAlongTheirDepth) {
  std::string text = "gemm_dtype,n,k,m,latency_ms\n";
  for (const int n : {1, 2, 3, 4}) {
    for (int k = 1; k <= 5; ++k) text += fmt::format("bf16,{},{},8,{}\n", n, k, (n + 1) / 2 * k);
  }
  const auto errors = HoldOutOperators("t.csv", text);
  ASSERT_TRUE(errors.ok()) << errors.status();
  EXPECT_NEAR((*errors)[0].median_percent, 0, 1e-9);
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

// Six divisions, of which the times at 2 tokens of 1 and 2 devices lie a tenth above their lines,
// the others' on them: the nearest division says so of 1, and both sides differ at 2, which alone
// is off.
TEST(OperatorTable, ExpertsMissLikeTheNearestDivisions) {
  std::string table = "moe_dtype,moe_ep_size,num_tokens,latency_ms\n";
  for (const int ranks : {1, 2, 4, 8, 16, 32}) {
    for (const auto& [tokens, ms] : {std::pair{1, 1.0}, {2, ranks <= 2 ? 2.2 : 2.0}, {4, 4.0}}) {
      table += fmt::format("bfloat16,{},{},{}\n", ranks, tokens, ms);
    }
  }
  const auto errors = HoldOutOperators("t.csv", table);
  ASSERT_TRUE(errors.ok()) << errors.status();
  EXPECT_EQ(errors->front().held_out, 6);
  EXPECT_NEAR(errors->front().p90_percent, 100 * (1 - 1 / 1.1) / 2, 1e-9);  // at 4.5 of 5
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
  EXPECT_DOUBLE_EQ(run->measured[0].ttft.seconds(), 1);
  EXPECT_DOUBLE_EQ(run->measured[0].tpot.seconds(), 0.5);
  ASSERT_EQ(run->notes.size(), 1);
  EXPECT_NE(run->notes[0].find("1 of 2 requests"), std::string::npos);
  Write("meta.json", R"({"model": "m", "vllm_version": "0.25.0",
                         "engine_kwargs": {"enforce_eager": true, "async_scheduling": false,
                                           "scheduling_policy": "priority",
                                           "long_prefill_token_threshold": 100,
                                           "enable_chunked_prefill": false}})");
  run = ReadMeasuredRun(path_);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->engine.name, "vllm-0.19");
  EXPECT_FALSE(run->engine.Captured(1, false));
  EXPECT_FALSE(run->engine.asynchronous);
  EXPECT_FALSE(run->engine.chunked_prefill);
  EXPECT_EQ(run->engine.policy, AdmissionPolicy::kPriority);
  EXPECT_EQ(run->engine.long_prefill_threshold, 100);
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
  EXPECT_DOUBLE_EQ(run->measured[1].tpot.seconds(), 1);
  EXPECT_DOUBLE_EQ(run->time.seconds(), 2.5);
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

}  // namespace
}  // namespace foretrace::serve
