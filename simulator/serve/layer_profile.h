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
struct LayerProfile {
  std::string folder;
  std::map<std::string, Curve> dense;         // by layer, over tokens
  std::map<std::string, Curve> per_sequence;  // over sequences
  std::map<double, Curve> experts;            // by number of experts visited, over tokens
  AttentionGrid attention;
};

// Errors name file and line.
absl::StatusOr<LayerProfile> ReadLayerProfile(const std::string& folder);
// skew.csv where it is not in the folder; `name` stands for it in messages.
absl::Status AddSkew(const std::string& name, std::string text, LayerProfile& profile);

// What the profile does not say of its model.
struct ProfiledModel {
  int32_t layers = 0;
  int64_t hidden = 0;
  int32_t experts = 0, experts_per_token = 0;
};

// Time of summing `bytes` over the tensor-parallel ranks; microseconds. Null: there is one.
class Reduction {
 public:
  virtual ~Reduction() = default;
  virtual Estimate Time(int64_t bytes) const = 0;
};

// `graph_sizes` of the engine pad what dense layers compute.
std::shared_ptr<const StepModel> MakeProfileStepModel(std::shared_ptr<const LayerProfile> profile,
                                                      const ProfiledModel& model,
                                                      const EngineConfig& engine,
                                                      std::shared_ptr<const Reduction> reduction);

// Experts that `tokens` visit of which each visits `per_token` of `experts`, drawn evenly:
// E (1 - (1 - k/E)^T).
double VisitedExperts(double tokens, int32_t experts, int32_t per_token);

}  // namespace foretrace::serve
