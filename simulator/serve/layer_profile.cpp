#include "simulator/serve/layer_profile.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <vector>

#include "simulator/base/error.h"
#include "simulator/base/input.h"
#include "simulator/base/status_macros.h"
#include "simulator/serve/csv_columns.h"

namespace foretrace::serve {
namespace {

constexpr double kMaxUs = 1e9;
constexpr double kMaxCount = 1e9;

using AddRow = std::function<void(const CsvRow&)>;

absl::Status ReadTable(const std::string& file, std::initializer_list<std::string_view> columns,
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
// Two of them are in a layer: before attention and before the feed-forward part.
int32_t TimesInLayer(const std::string& layer) { return layer == "layernorm" ? 2 : 1; }

class ProfileStepModel : public StepModel {
 public:
  ProfileStepModel(std::shared_ptr<const LayerProfile> profile, const ProfiledModel& model,
                   const EngineConfig& engine, std::shared_ptr<const Reduction> reduction)
      : profile_(std::move(profile)),
        model_(model),
        engine_(engine),
        reduction_(std::move(reduction)) {}

  StepTime Time(const StepBatch& batch) const override {
    StepTime time;
    const double layers = model_.layers;
    const int32_t tokens = engine_.Padded(batch.tokens());
    for (const auto& [name, curve] : profile_->dense) {
      Add(time, StepPart::kDense, curve.At(tokens),
          RunsOnce(name) ? 1 : layers * TimesInLayer(name));
    }
    Add(time, StepPart::kAttention, profile_->attention.At(batch), layers);
    for (const auto& [name, curve] : profile_->per_sequence) {
      Add(time, StepPart::kHead, curve.At(batch.sequences()), 1);
    }
    if (!profile_->experts.empty()) {
      Add(time, StepPart::kExperts, Experts(tokens), layers);
    }
    if (reduction_ != nullptr) {
      // After attention and after the feed-forward part, activations of 2 bytes.
      const Estimate each = reduction_->Time(int64_t{tokens} * model_.hidden * 2);
      time.Add(StepPart::kCommunication, 2 * layers * each.time.us(), each.source,
               each.extrapolated);
    }
    return time;
  }

  std::string Source() const override { return "layer profile " + profile_->folder; }

 private:
  static void Add(StepTime& time, StepPart part, const Interpolated& one, double times) {
    time.Add(part, one.us * times, EstimateSource::kCalibrated, one.extrapolated);
  }

  // Linear between the measured numbers of experts.
  Interpolated Experts(double tokens) const {
    const double visited = VisitedExperts(tokens, model_.experts, model_.experts_per_token);
    const auto& curves = profile_->experts;
    auto above = curves.lower_bound(visited);
    if (above == curves.end()) return std::prev(above)->second.At(tokens);
    if (above == curves.begin()) return above->second.At(tokens);
    const auto below = std::prev(above);
    const double weight = (visited - below->first) / (above->first - below->first);
    const Interpolated a = below->second.At(tokens), b = above->second.At(tokens);
    return {a.us + (b.us - a.us) * weight, a.extrapolated && b.extrapolated};
  }

  std::shared_ptr<const LayerProfile> profile_;
  ProfiledModel model_;
  EngineConfig engine_;
  std::shared_ptr<const Reduction> reduction_;
};

}  // namespace

double VisitedExperts(double tokens, int32_t experts, int32_t per_token) {
  const double share = static_cast<double>(per_token) / experts;
  return experts * (1 - std::pow(1 - share, tokens));
}

absl::StatusOr<LayerProfile> ReadLayerProfile(const std::string& folder) {
  namespace fs = std::filesystem;
  LayerProfile profile;
  profile.folder = folder;
  const auto in = [&](const char* name) { return (fs::path(folder) / name).string(); };
  FORETRACE_RETURN_IF_ERROR(ReadCurves(in("dense.csv"), "tokens", profile.dense));
  FORETRACE_RETURN_IF_ERROR(ReadCurves(in("per_sequence.csv"), "sequences", profile.per_sequence));
  FORETRACE_RETURN_IF_ERROR(ReadAttention(in("attention.csv"), profile.attention));
  std::error_code error;
  if (fs::exists(in("moe.csv"), error)) {
    FORETRACE_RETURN_IF_ERROR(ReadExperts(in("moe.csv"), profile.experts));
  }
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
    rows.push_back({row.Number(0, 0, kMaxCount), row.Number(1, 1, kMaxCount),
                    row.Number(2, -kMaxCount, kMaxCount)});
  }
  profile.attention.SetSkew(rows);
  return table.status();
}

std::shared_ptr<const StepModel> MakeProfileStepModel(std::shared_ptr<const LayerProfile> profile,
                                                      const ProfiledModel& model,
                                                      const EngineConfig& engine,
                                                      std::shared_ptr<const Reduction> reduction) {
  return std::make_shared<ProfileStepModel>(std::move(profile), model, engine,
                                            std::move(reduction));
}

}  // namespace foretrace::serve
