#pragma once
// A measured run of an engine: what was asked of it, how it was set up, and what came out.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/serve/engine_config.h"
#include "simulator/serve/metrics.h"
#include "simulator/serve/request.h"

namespace foretrace::serve {

// A folder with
//   meta.json      model, vllm_version or sglang_version, engine_kwargs and, where known, kv_cache,
//                  hardware and resolved_config, as LLMServingSim's bench writes it (run_meta.h)
//   requests.csv   input_tokens, output_tokens, client_arrival_s, planned_arrival_s or neither, and
//                  of what came out queued_s, first_token_s, last_token_s; optional: request (its
//                  place in the workload), ttft_s, tpot_s, e2e_s
//   requests.jsonl instead, as the bench writes it: input_toks, output_toks, arrival_time,
//                  queued_ts, first_token_ts, last_token_ts
// Requests without a last token did not finish and are left out.
struct MeasuredRun {
  std::string folder;
  std::string model;    // "meta-llama/Llama-3.1-8B"
  std::string device;   // hardware.device_name; may be empty
  Bytes device_memory;  // 0: not stated
  std::string dataset;  // dataset_path: names the workload
  int32_t tensor_parallel = 1, pipeline_parallel = 1, data_parallel = 1;
  bool engines_in_step = false;  // data-parallel engines share experts (Pool::in_step)
  std::string release;           // of the engine: "0.19.0"
  // Of the release, with what the run set; kv_blocks and max_model_len 0: not stated.
  EngineConfig engine;
  RequestTrace trace;                  // arrivals as the client sent them
  std::vector<size_t> rows;            // by request: its place in the workload
  std::vector<RequestTimes> measured;  // since queued; as the trace's requests
  RealSeconds time;                    // from the first queued to the last token
  std::vector<std::string> notes;      // what was assumed

  int32_t devices() const { return tensor_parallel * pipeline_parallel * data_parallel; }
};

// Errors name file, line or key.
absl::StatusOr<MeasuredRun> ReadMeasuredRun(const std::string& folder);

// Prefixes (shared_prefix.h) by the workload's file (request,arrival_s,input_tokens,output_tokens,
// shared_prefix_tokens), of which the run may have asked the first alone. Errors: lengths that
// differ, a workload that is too short.
absl::Status AddSharedPrefixes(const std::string& file, MeasuredRun& run);

}  // namespace foretrace::serve
