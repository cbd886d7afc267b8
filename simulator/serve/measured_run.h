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
//   meta.json      model, vllm_version, engine_kwargs and, where known, kv_cache, hardware and
//                  resolved_config, as LLMServingSim's bench writes it
//   requests.csv   input_tokens, output_tokens, client_arrival_s or planned_arrival_s, and of what
//                  came out queued_s, first_token_s, last_token_s, ttft_s, tpot_s, e2e_s
struct MeasuredRun {
  std::string folder;
  std::string model;    // "meta-llama/Llama-3.1-8B"
  std::string device;   // hardware.device_name; may be empty
  Bytes device_memory;  // 0: not stated
  std::string dataset;  // dataset_path: names the workload
  int32_t tensor_parallel = 1, data_parallel = 1;
  bool expert_parallel = false;
  EngineConfig engine;  // of the release, with what the run set; kv_blocks 0: not stated
  RequestTrace trace;   // arrivals as the client sent them
  std::vector<RequestTimes> measured;  // since queued; as the trace's requests
  double seconds = 0;                  // from the first queued to the last token
};

// Errors name file, line or key.
absl::StatusOr<MeasuredRun> ReadMeasuredRun(const std::string& folder);

// Prefixes (shared_prefix.h) by the workload's file (request,arrival_s,input_tokens,output_tokens,
// shared_prefix_tokens), whose rows are the trace's requests. Errors: lengths that differ.
absl::Status AddSharedPrefixes(const std::string& file, int32_t block_tokens, RequestTrace& trace);

}  // namespace foretrace::serve
