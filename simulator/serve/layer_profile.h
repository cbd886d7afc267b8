#pragma once
// Times of a model's layers, each measured alone, and steps put together from them.

#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "simulator/serve/attention_grid.h"
#include "simulator/serve/engine_config.h"
#include "simulator/serve/interpolation.h"
#include "simulator/serve/step_model.h"

namespace foretrace::serve {

// A folder of one model, device and tensor-parallel degree (LLMServingSim's layout, as CSV):
//   dense.csv         layer,tokens,time_us
//   attention.csv     prefill_chunk,kv_prefill,n_decode,kv_decode,time_us
//   per_sequence.csv  layer,sequences,time_us
//   moe.csv           tokens,activated_experts,time_us    (models with experts)
//   skew.csv          decode batches of unequal lengths   (optional)
// The profiler measures some layers of the whole model alone, for every degree: experts, whose file
// then lies in the folder of degree 1, and the norms of queries and keys (LLMServingSim,
// profiler/models/qwen3.yaml, which walk the heads of a rank).
struct LayerProfile {
  std::string folder;
  int32_t tensor = 1;
  std::map<std::string, Curve> dense;         // by layer, over tokens
  std::map<std::string, Curve> per_sequence;  // over sequences
  std::map<double, Curve> experts;            // by number of experts activated, over tokens
  AttentionGrid attention;
  // Over how many ranks a layer that was measured whole is divided.
  int32_t expert_ranks = 1, head_norm_ranks = 1;
};

// Of `tensor` ranks; the folder of degree 1 is the one beside whose name ends in _tp1. Errors name
// file and line; a folder whose name ends in another degree.
absl::StatusOr<LayerProfile> ReadLayerProfile(const std::string& folder, int32_t tensor);
// skew.csv where it is not in the folder; `name` stands for it in messages.
absl::Status AddSkew(const std::string& name, std::string text, LayerProfile& profile);

// What the profile does not say of its model.
struct ProfiledModel {
  int32_t layers = 0;
  int64_t hidden = 0, vocabulary = 0;
  int32_t experts = 0, experts_per_token = 0;
  // Engines that share the experts (StepBatch::peer_tokens).
  int32_t expert_replicas = 1;
};
// Errors: experts that one of them has and the other has not.
absl::Status CheckProfile(const LayerProfile& profile, const ProfiledModel& model);

// Among the tensor-parallel ranks. Null: there is one.
class RankExchange {
 public:
  virtual ~RankExchange() = default;
  virtual Estimate Sum(int64_t bytes) const = 0;
  virtual Estimate Gather(int64_t bytes) const = 0;  // of all ranks' parts
};

// Tokens to the experts of all engines that share them and back; microseconds. The engines gather
// all tokens, and sum what the experts made to the token's own engine (vLLM's
// allgather_reducescatter). `bytes` of all engines' tokens.
class EngineExchange {
 public:
  virtual ~EngineExchange() = default;
  virtual Estimate Gather(int64_t bytes) const = 0;
  virtual Estimate Scatter(int64_t bytes) const = 0;
};

// `graph_sizes` of the engine pad what dense layers compute; replayed as a graph, kernels follow
// one another sooner than the eager ones of the profile by `graph_saves_per_kernel`: all of a step
// of decodes alone, all but attention of a step with a prompt, where captured graphs end at it
// (vLLM's FULL_AND_PIECEWISE).
std::shared_ptr<const StepModel> MakeProfileStepModel(
    std::shared_ptr<const LayerProfile> profile, const ProfiledModel& model,
    const EngineConfig& engine, std::shared_ptr<const RankExchange> ranks,
    std::shared_ptr<const EngineExchange> exchange = nullptr);

// Experts that `tokens` activate of which each is routed to `per_token` of `experts`, drawn evenly:
// E (1 - (1 - k/E)^T).
double ActivatedExperts(double tokens, int32_t experts, int32_t per_token);

}  // namespace foretrace::serve
