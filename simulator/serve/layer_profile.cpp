#include "simulator/serve/layer_profile.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "absl/strings/numbers.h"
#include "simulator/base/error.h"
#include "simulator/base/input.h"
#include "simulator/base/status_macros.h"
#include "simulator/serve/csv_columns.h"

namespace foretrace::serve {
namespace {

constexpr double kMaxUs = 1e9;
constexpr double kMaxCount = 1e9;

using AddRow = std::function<void(const CsvRow&)>;

absl::Status ReadTable(const std::string& file, const std::vector<std::string_view>& columns,
                       const AddRow& add) {
  FORETRACE_ASSIGN_OR_RETURN(CsvColumns table, CsvColumns::Open(file, columns));
  while (table.Next()) add(table.row());
  return table.status();
}

absl::Status FinishAll(std::map<std::string, Curve>& curves, const std::string& file) {
  for (auto& [name, curve] : curves) {
    if (const absl::Status status = curve.Finish(); !status.ok()) {
      return InvalidInput("{}: layer '{}' {}", file, name, std::string(status.message()));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadCurves(const std::string& file, std::string_view over,
                        std::map<std::string, Curve>& curves) {
  FORETRACE_RETURN_IF_ERROR(ReadTable(file, {"layer", over, "time_us"}, [&](const CsvRow& row) {
    curves[row.Text(0)].Add(row.Number(1, 1, kMaxCount), row.Number(2, 0, kMaxUs));
  }));
  return FinishAll(curves, file);
}

absl::Status ReadExperts(const std::string& file, std::map<double, Curve>& experts) {
  FORETRACE_RETURN_IF_ERROR(
      ReadTable(file, {"tokens", "activated_experts", "time_us"}, [&](const CsvRow& row) {
        experts[row.Number(1, 1, kMaxCount)].Add(row.Number(0, 1, kMaxCount),
                                                 row.Number(2, 0, kMaxUs));
      }));
  for (auto& [count, curve] : experts) FORETRACE_RETURN_IF_ERROR(curve.Finish());
  return absl::OkStatus();
}

absl::Status ReadAttention(const std::string& file, AttentionGrid& grid) {
  return ReadTable(file, {"prefill_chunk", "kv_prefill", "n_decode", "kv_decode", "time_us"},
                   [&](const CsvRow& row) {
                     const auto size = [&](size_t c) { return row.Number(c, 0, kMaxCount); };
                     grid.Add(size(0), size(1), size(2), size(3), row.Number(4, 0, kMaxUs));
                   });
}

// Layers that a step runs once; all others run in every layer of the model.
bool RunsOnce(const std::string& layer) {
  return layer == "embedding" || layer == "final_layernorm";
}
bool IsHeadNorm(const std::string& layer) { return layer == "qk_norm"; }
// Norms are measured as the mean of their calls, of which two are in a layer: before attention and
// before the feed-forward part, and of queries and of keys (of Qwen3-32B whole the file has 42.5 us
// at 2,048 tokens, profiler/models/qwen3.yaml says 87.0 of both).
int32_t TimesInLayer(const std::string& layer) {
  return layer == "layernorm" || IsHeadNorm(layer) ? 2 : 1;
}

// Kernels that a measured time is the sum of: attention behind the write of keys and values;
// experts as gate, selection, two of sorting, two GEMMs, activation and sum.
constexpr int32_t kAttentionKernels = 2, kExpertKernels = 8;

class ProfileStepModel : public StepModel {
 public:
  ProfileStepModel(std::shared_ptr<const LayerProfile> profile, const ProfiledModel& model,
                   const EngineConfig& engine, std::shared_ptr<const RankExchange> ranks,
                   std::shared_ptr<const EngineExchange> exchange)
      : profile_(std::move(profile)),
        model_(model),
        engine_(engine),
        ranks_(std::move(ranks)),
        exchange_(std::move(exchange)) {}

  StepTime Time(const StepBatch& batch) const override {
    StepTime time;
    const double layers = model_.layers;
    const auto [tokens, all_tokens, captured] = TokensOf(batch);
    const double saved = captured ? engine_.graph_saves_per_kernel.us() : 0;
    for (const auto& [name, curve] : profile_->dense) {
      const double here =
          IsHeadNorm(name) ? static_cast<double>(tokens) / profile_->head_norm_ranks : tokens;
      Add(time, StepPart::kDense, Sooner(curve.At(here), saved),
          RunsOnce(name) ? 1 : layers * TimesInLayer(name));
    }
    Add(time, StepPart::kAttention,
        Sooner(profile_->attention.At(batch),
               batch.prefills.empty() ? saved * kAttentionKernels : 0),
        layers);
    for (const auto& [name, curve] : profile_->per_sequence) {
      Add(time, StepPart::kHead, curve.At(batch.logits()), 1);
    }
    if (!profile_->experts.empty()) {
      Add(time, StepPart::kExperts, Sooner(Experts(all_tokens), saved * kExpertKernels), layers);
    }
    if (exchange_ != nullptr) {
      // Activations and the router's logits there, activations back; 2 bytes each.
      Add(time, exchange_->Gather(all_tokens * (model_.hidden + model_.experts) * 2), layers);
      Add(time, exchange_->Scatter(all_tokens * model_.hidden * 2), layers);
    }
    if (ranks_ != nullptr) {
      // After the embedding, attention and the feed-forward part, activations of 2 bytes; each rank
      // has the logits of its part of the vocabulary, and samples from all
      // (vllm/model_executor/layers: vocab_parallel_embedding.py, logits_processor.py).
      Add(time, ranks_->Sum(int64_t{tokens} * model_.hidden * 2), 2 * layers + 1);
      Add(time, ranks_->Gather(int64_t{batch.logits()} * model_.vocabulary * 2), 1);
    }
    return time;
  }

  std::string Source() const override { return "layer profile " + profile_->folder; }

 private:
  static Interpolated Sooner(Interpolated one, double saved_us) {
    one.us = std::max(0.0, one.us - saved_us);
    return one;
  }
  static void Add(StepTime& time, StepPart part, const Interpolated& one, double times) {
    time.Add(part, RealUs(one.us * times), EstimateSource::kCalibrated, one.extrapolated);
  }
  static void Add(StepTime& time, const Estimate& transfer, double times) {
    time.Add(StepPart::kCommunication, RealUs(transfer.time.us() * times), transfer.source,
             transfer.extrapolated);
  }

  struct StepTokens {
    int32_t own = 0;  // that the engine computes
    int64_t all = 0;  // and those that share its experts
    bool captured = false;
  };
  // Engines that share experts replay graphs where all of them can, of the size that the one with
  // most tokens needs (vLLM, vllm/v1/worker/dp_utils.py, coordinate_batch_across_dp).
  StepTokens TokensOf(const StepBatch& batch) const {
    const bool prompts = !batch.prefills.empty() || batch.peer_prompts;
    int32_t most = batch.tokens();
    for (const int32_t tokens : batch.peer_tokens) most = std::max(most, tokens);
    if (engine_.Captured(most, prompts)) {
      const int32_t padded = engine_.Padded(most, prompts);
      return {padded, padded * (1 + static_cast<int64_t>(batch.peer_tokens.size())), true};
    }
    int64_t all = batch.tokens();
    for (const int32_t tokens : batch.peer_tokens) all += tokens;
    return {batch.tokens(), all, false};
  }

  // Linear between the measured numbers of experts, in proportion below the least. A rank of
  // several reads its part of the weights that are activated and does its part of the GEMMs, by
  // whole experts or by their width: as one rank for a part of the tokens and of the experts.
  Interpolated Experts(int64_t of_all) const {
    const auto all_tokens = static_cast<double>(of_all);
    const double ranks = static_cast<double>(profile_->expert_ranks) * model_.expert_replicas;
    const double activated =
        ActivatedExperts(all_tokens, model_.experts, model_.experts_per_token) / ranks;
    const double tokens = all_tokens / ranks;
    const auto& curves = profile_->experts;
    auto above = curves.lower_bound(activated);
    if (above == curves.end()) return std::prev(above)->second.At(tokens);
    if (above == curves.begin()) {
      Interpolated least = above->second.At(tokens);
      least.us *= activated / above->first;
      return least;
    }
    const auto below = std::prev(above);
    const double weight = (activated - below->first) / (above->first - below->first);
    const Interpolated a = below->second.At(tokens), b = above->second.At(tokens);
    return {a.us + (b.us - a.us) * weight, a.extrapolated && b.extrapolated};
  }

  std::shared_ptr<const LayerProfile> profile_;
  ProfiledModel model_;
  EngineConfig engine_;
  std::shared_ptr<const RankExchange> ranks_;
  std::shared_ptr<const EngineExchange> exchange_;
};

// HARDWARE_MODEL as the folder's name begins, without a slash at the end; the degree that it ends
// in, nullopt: none.
std::pair<std::string, std::optional<int32_t>> DegreeOf(const std::string& folder) {
  std::string path = std::filesystem::path(folder).lexically_normal().string();
  while (path.ends_with('/')) path.pop_back();
  const size_t at = path.rfind("_tp");
  int32_t degree = 0;
  if (at == std::string::npos || !absl::SimpleAtoi(path.substr(at + 3), &degree)) {
    return {path, std::nullopt};
  }
  return {path.substr(0, at), degree};
}

// Layers that were measured of the whole model, from the folder of degree 1.
absl::Status TakeWholeLayers(const std::string& folder, int32_t tensor, LayerProfile& profile) {
  namespace fs = std::filesystem;
  const auto [stem, degree] = DegreeOf(folder);
  if (degree && *degree != tensor) {
    return InvalidInput("{}: is of tensor parallelism {}, {} is asked for", folder, *degree,
                        tensor);
  }
  if (tensor <= 1 || !degree) return absl::OkStatus();
  const std::string whole = stem + "_tp1";
  const auto in = [&](const char* name) { return (fs::path(whole) / name).string(); };
  std::error_code error;
  if (profile.experts.empty() && fs::exists(in("moe.csv"), error)) {
    FORETRACE_RETURN_IF_ERROR(ReadExperts(in("moe.csv"), profile.experts));
    profile.expert_ranks = tensor;
  }
  if (!fs::exists(in("dense.csv"), error)) return absl::OkStatus();
  std::map<std::string, Curve> dense;
  FORETRACE_RETURN_IF_ERROR(ReadCurves(in("dense.csv"), "tokens", dense));
  for (const auto& [name, curve] : profile.dense) {
    const auto at = dense.find(name);
    if (IsHeadNorm(name) && at != dense.end() && at->second == curve) {
      profile.head_norm_ranks = tensor;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckProfile(const LayerProfile& profile, const ProfiledModel& model) {
  if (model.experts > 0 && profile.experts.empty()) {
    return InvalidInput("{}: has no moe.csv, and the model has {} experts", profile.folder,
                        model.experts);
  }
  if (model.experts == 0 && !profile.experts.empty()) {
    return InvalidInput("{}: has a moe.csv, and the model has no experts", profile.folder);
  }
  return absl::OkStatus();
}

double ActivatedExperts(double tokens, int32_t experts, int32_t per_token) {
  const double share = static_cast<double>(per_token) / experts;
  return experts * (1 - std::pow(1 - share, tokens));
}

absl::StatusOr<LayerProfile> ReadLayerProfile(const std::string& folder, int32_t tensor) {
  namespace fs = std::filesystem;
  LayerProfile profile;
  profile.folder = folder;
  profile.tensor = tensor;
  const auto in = [&](const char* name) { return (fs::path(folder) / name).string(); };
  FORETRACE_RETURN_IF_ERROR(ReadCurves(in("dense.csv"), "tokens", profile.dense));
  FORETRACE_RETURN_IF_ERROR(ReadCurves(in("per_sequence.csv"), "sequences", profile.per_sequence));
  FORETRACE_RETURN_IF_ERROR(ReadAttention(in("attention.csv"), profile.attention));
  std::error_code error;
  if (fs::exists(in("moe.csv"), error)) {
    FORETRACE_RETURN_IF_ERROR(ReadExperts(in("moe.csv"), profile.experts));
  }
  FORETRACE_RETURN_IF_ERROR(TakeWholeLayers(folder, tensor, profile));
  if (const absl::Status status = profile.attention.Finish(); !status.ok()) {
    return InvalidInput("{}: {}", in("attention.csv"), std::string(status.message()));
  }
  if (fs::exists(in("skew.csv"), error)) {
    FORETRACE_ASSIGN_OR_RETURN(std::string text, ReadTextFile(in("skew.csv"), kMaxTableBytes));
    FORETRACE_RETURN_IF_ERROR(AddSkew(in("skew.csv"), std::move(text), profile));
  }
  return profile;
}

absl::Status AddSkew(const std::string& name, std::string text, LayerProfile& profile) {
  FORETRACE_ASSIGN_OR_RETURN(CsvColumns table,
                             CsvColumns::Parse(name, std::move(text), {"pc", "n", "alpha"}));
  std::vector<SkewRow> rows;
  while (table.Next()) {
    const CsvRow& row = table.row();
    if (row.Text(2).empty()) continue;  // mean and maximum are too close to tell
    rows.push_back(
        {row.Number(0, 0, kMaxCount), row.Number(1, 1, kMaxCount),
         row.Number(2, std::numeric_limits<double>::lowest(), std::numeric_limits<double>::max())});
  }
  profile.attention.SetSkew(rows);
  return table.status();
}

std::shared_ptr<const StepModel> MakeProfileStepModel(
    std::shared_ptr<const LayerProfile> profile, const ProfiledModel& model,
    const EngineConfig& engine, std::shared_ptr<const RankExchange> ranks,
    std::shared_ptr<const EngineExchange> exchange) {
  return std::make_shared<ProfileStepModel>(std::move(profile), model, engine, std::move(ranks),
                                            std::move(exchange));
}

}  // namespace foretrace::serve
