#pragma once
// What `serve` is asked, and what all deployments of a model on a platform share.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/serve/device_costs.h"
#include "simulator/serve/layer_profile.h"
#include "simulator/serve/request_files.h"
#include "simulator/serve/step_factors.h"
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
  std::string preemption;             // "recompute" or "swap"; empty: the engine's
  std::vector<std::string> kv_tiers;  // NAME:GiB:GB/s[:us], nearest first
  std::optional<int32_t> max_num_seqs, max_num_batched_tokens, max_model_len, block_tokens;
  std::optional<int64_t> kv_blocks;
  double memory_utilization = 0;  // 0: the engine's
  std::string expert_exchange;    // serve/expert_transfers.h; empty: the engine's
  int32_t redundant_experts = 0;  // copies beside the model's own
  std::string weights;            // of the layers' GEMMs; empty: as the model's file says
  std::string kv_cache_dtype;     // "fp8"; empty: the model's
  std::string speculate;  // "sequence:WINDOW:ACCEPTANCE" or "tree:WINDOW:BRANCHES:ACCEPTANCE"
  std::vector<std::string> operators;  // tables of single operators measured on the device
  std::string step_factors;            // a file of serve/step_factors.h
  std::string draft;                   // model
  std::string draft_parallel;          // of the draft on devices of its own; empty: on the target's
  double ttft_ms = 0, tpot_ms = 0, e2e_ms = 0;  // service level; 0: any
};

// What all deployments of a model on a platform share.
struct ServingBase {
  TransformerConfig model;
  PlatformSpec platform;
  std::shared_ptr<const serve::DeviceCosts> costs;
  std::shared_ptr<const serve::LayerProfile> profile;  // null without --profiles
  int64_t longest_request = 0;  // that engines are started for, where it is not given
  std::optional<serve::StepFactors> factors;
  std::optional<TransformerConfig> draft;
  std::vector<std::string> notes;
};
// A decoder-only transformer of which a layer attends to all tokens; `notes` learns which a name
// was taken to mean. Errors: other models.
absl::StatusOr<TransformerConfig> LoadServedModel(const std::string& name,
                                                  std::vector<std::string>& notes);
// `devices`: that the platform should have, where it can. Errors: files that cannot be read.
absl::StatusOr<ServingBase> LoadServingBase(const ServingOptions& options, int32_t devices);

// The context that requests may have.
int32_t ContextOf(const ServingOptions& options, const TransformerConfig& model);
// Starts engines for the longest of these requests, as an operator would, at most the context; for
// as many tokens as the model's file has in a sample where all are shorter.
void TakeLongest(const ServingOptions& options, const serve::RequestTrace& trace,
                 ServingBase& base);

// What layer profiles are checked against.
serve::ProfiledModel ProfiledSizes(const TransformerConfig& model);

}  // namespace foretrace
