#pragma once
// What `serve` is asked: a model on a platform, an engine, requests.

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/serve/memory_ledger.h"
#include "simulator/serve/metrics.h"
#include "simulator/serve/request_files.h"
#include "simulator/topology/platform.h"

namespace foretrace {

struct ServingOptions {
  std::string model, platform;
  std::string parallel = "tp1";
  std::string kernels = "auto";
  std::string profiles;  // a layer profile instead of graph and kernels
  std::string engine = "vllm-0.19";
  std::string requests;
  bool skip_too_long = false;
  serve::RequestGenerator generator;
  int32_t concurrency = 0;
  int32_t prefix_block = 512;
  int32_t replicas = 1;
  int32_t decode_engines = 0;
  std::string routing = "least-loaded";
  std::string without;  // features of the engine, ',' between them
  std::string policy;
  std::optional<int32_t> max_num_seqs, max_num_batched_tokens, max_model_len, block_tokens;
  std::optional<int64_t> kv_blocks;
  double memory_utilization = 0;  // 0: the engine's
  std::string speculate;  // "sequence:WINDOW:ACCEPTANCE" or "tree:WINDOW:BRANCHES:ACCEPTANCE"
  std::string draft;      // model
  double ttft_ms = 0, tpot_ms = 0, e2e_ms = 0;  // service level; 0: any
};

// All that a simulation needs, and what reports say of it.
struct ServingJob {
  TransformerConfig model;
  PlatformSpec platform;
  serve::ServingPlan plan;
  serve::MemoryLedger ledger;
  serve::RequestTrace trace;
  serve::Deployment deployment;
  serve::ServiceLevel level;
  int32_t devices = 0;  // of all engines
  std::vector<std::string> notes;
};

// Errors: files that cannot be read, degrees that do not divide the model, more devices than the
// platform has, a model that does not fit (exit code 3, with what would).
absl::StatusOr<ServingJob> MakeServingJob(const ServingOptions& options);

// The parts of it that searches change.
absl::StatusOr<serve::EngineConfig> EngineOf(const ServingOptions& options,
                                             const TransformerConfig& model);

}  // namespace foretrace
