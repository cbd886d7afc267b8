#include "simulator/calibrate/embedding/embedding_fitter.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "simulator/base/check.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/calibrate/embedding/embedding_fit.h"
#include "simulator/calibrate/trace_rows.h"

namespace foretrace {
namespace {

absl::StatusOr<GpuPeaks> DeviceOf(std::span<const BenchmarkRow> rows) {
  if (rows.empty()) return InvalidInput("no rows to fit lookup models to");
  return FindGpuPeaksOfLabel(rows.front().platform);
}

using ModelKey = std::pair<LookupKernels, LookupPass>;

absl::StatusOr<std::map<ModelKey, std::vector<TimedLookup>>> LookupsOf(
    std::span<const BenchmarkRow> rows) {
  std::map<ModelKey, std::vector<TimedLookup>> lookups;
  for (const BenchmarkRow& row : rows) {
    auto sample = SampleOfRow(row);
    if (!sample.ok()) {
      return InvalidInput("line {}: {}", row.line, std::string(sample.status().message()));
    }
    lookups[{sample->kernels, sample->pass}].push_back({*std::move(sample), row.time_us});
  }
  return lookups;
}

absl::StatusOr<std::unique_ptr<FittedModels>> FitRows(std::span<const BenchmarkRow> rows,
                                                      const EmbeddingFitOptions& options,
                                                      const FittedEmbedding* prior) {
  FORETRACE_ASSIGN_OR_RETURN(const GpuPeaks device, DeviceOf(rows));
  FORETRACE_ASSIGN_OR_RETURN(const auto lookups, LookupsOf(rows));
  EmbeddingModels models;
  std::vector<std::string> notes;
  if (prior != nullptr) {
    for (int k = 0; k < static_cast<int>(LookupKernels::kCount); ++k) {
      for (int p = 0; p < static_cast<int>(LookupPass::kCount); ++p) {
        const auto kernels = static_cast<LookupKernels>(k);
        const auto pass = static_cast<LookupPass>(p);
        models.at(kernels, pass) = prior->models().at(kernels, pass);
        if (prior->device().name == device.name) continue;
        models.at(kernels, pass).residual = TreeEnsemble();
        models.at(kernels, pass).residual_clip = 0;
      }
    }
  }
  for (const auto& [key, samples] : lookups) {
    const auto& [kernels, pass] = key;
    FORETRACE_ASSIGN_OR_RETURN(
        EmbeddingModel model,
        FitEmbeddingModel(device, pass, samples, models.at(kernels, pass).parameters, options));
    std::string typical;
    const bool skewed = std::ranges::any_of(
        samples, [](const TimedLookup& t) { return t.sample.query.mean_lengths; });
    for (size_t i = 0; i < kEmbeddingParameters; ++i) {
      if (EmbeddingParameterName(i) == "length_skew" && !skewed) continue;  // of no use to these
      if (EmbeddingPriorSpread(i, pass) > 0 && model.informed[i] < 0.5) {
        typical += (typical.empty() ? "" : ", ") + std::string(EmbeddingParameterName(i));
      }
    }
    if (!typical.empty()) {
      notes.push_back(fmt::format(
          "{} {}: the rows say little of {}; {} by half or more", Name(kernels), Name(pass),
          typical, prior == nullptr ? "typical or published values" : "the prior calibration"));
    }
    models.at(kernels, pass) = std::move(model);
  }
  return std::make_unique<FittedEmbedding>(std::move(models), device, std::move(notes));
}

}  // namespace

std::vector<std::pair<std::string, std::string>> FittedEmbedding::SideFiles() const {
  std::string bytes = EmbeddingResidualBytes(models_, device_);
  if (bytes.empty()) return {};
  return {{std::string(kEmbeddingResidualFile), std::move(bytes)}};
}

std::vector<EvaluatedRow> FittedEmbedding::Evaluate(std::span<const BenchmarkRow> rows) const {
  std::vector<EvaluatedRow> evaluated;
  std::map<std::string, GpuPeaks> devices;
  const auto device_of = [&](const std::string& label) -> const GpuPeaks& {
    const auto [it, added] = devices.try_emplace(label);
    if (added) it->second = FindGpuPeaksOfLabel(label).value_or(device_);
    return it->second;
  };
  for (const BenchmarkRow& row : rows) {
    if (row.kind != BenchmarkKind::kEmbedding) continue;
    const auto sample = SampleOfRow(row);
    if (!sample.ok()) continue;
    const EmbeddingModels::Choice choice = models_.Choose(sample->kernels, sample->pass);
    if (!choice.model->calibrated()) continue;
    const GpuPeaks& device = device_of(row.platform);
    const EmbeddingTraffic traffic = TrafficOf(device, sample->query);
    const bool sort = sample->part == TimedPart::kSort;
    evaluated.push_back({&row,
                         fmt::format("embedding {} {}{}", Name(sample->kernels), Name(sample->pass),
                                     sort ? " sort" : ""),
                         PredictUs(*choice.model, device, *sample, traffic),
                         choice.other_kernels || !choice.model->InRange(traffic)});
  }
  return evaluated;
}

absl::StatusOr<std::unique_ptr<FittedModels>> EmbeddingFitter::Fit(
    std::span<const BenchmarkRow> rows, const FitOptions& options) const {
  FORETRACE_RETURN_IF_ERROR(CheckForm(*this, options.form));
  return FitRows(rows, {options.seed, options.form != "physics"}, nullptr);
}

absl::StatusOr<std::pair<CalibrationHeader, std::unique_ptr<FittedModels>>> EmbeddingFitter::Load(
    const std::string& path) const {
  FORETRACE_ASSIGN_OR_RETURN(LoadedEmbedding loaded, LoadEmbeddingModels(path));
  return std::pair<CalibrationHeader, std::unique_ptr<FittedModels>>(
      std::move(loaded.header),
      std::make_unique<FittedEmbedding>(std::move(loaded.models), std::move(loaded.device)));
}

absl::StatusOr<std::unique_ptr<FittedModels>> EmbeddingFitter::Adapt(
    const FittedModels& prior, std::span<const BenchmarkRow> rows) const {
  const auto* embedding = dynamic_cast<const FittedEmbedding*>(&prior);
  FORETRACE_CHECK(embedding != nullptr);
  return FitRows(rows, {}, embedding);
}

absl::StatusOr<RowSplit> EmbeddingFitter::Split(std::span<const BenchmarkRow> rows,
                                                std::string_view rule, uint64_t) const {
  FORETRACE_RETURN_IF_ERROR(CheckHoldOutRule(*this, rule));
  RowSplit split;
  std::map<std::string, size_t> points;  // in order of appearance
  for (const BenchmarkRow& row : rows) {
    bool held_out = false;
    if (rule == "every-third") {
      const std::string_view point = TagOf(row.source, "point");
      const std::string key = point.empty() ? fmt::format("line {}", row.line) : std::string(point);
      held_out = points.try_emplace(key, points.size()).first->second % 3 == 2;
    } else {
      FORETRACE_ASSIGN_OR_RETURN(held_out, IsOddOfTrace(row, rule));
    }
    (held_out ? split.test : split.train).push_back(row);
  }
  return split;
}

}  // namespace foretrace
