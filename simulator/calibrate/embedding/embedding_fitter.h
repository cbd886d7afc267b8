#pragma once
// The family "embedding" of `foretrace calibrate`: lookups of embedding tables.

#include <memory>
#include <string>
#include <vector>

#include "simulator/calibrate/fitter.h"
#include "simulator/cost/embedding/embedding_file.h"

namespace foretrace {

class FittedEmbedding : public FittedModels {
 public:
  FittedEmbedding(EmbeddingModels models, GpuPeaks device, std::vector<std::string> notes = {})
      : models_(std::move(models)), device_(std::move(device)), notes_(std::move(notes)) {}
  std::string ToYaml() const override { return EmbeddingModelsYaml(models_, device_); }
  std::vector<std::pair<std::string, std::string>> SideFiles() const override;
  std::vector<EvaluatedRow> Evaluate(std::span<const BenchmarkRow> rows) const override;
  std::vector<std::string> Notes() const override { return notes_; }
  const EmbeddingModels& models() const { return models_; }
  const GpuPeaks& device() const { return device_; }

 private:
  EmbeddingModels models_;
  GpuPeaks device_;
  std::vector<std::string> notes_;
};

class EmbeddingFitter : public Fitter {
 public:
  std::string_view kind() const override { return "embedding"; }
  std::string_view file_stem() const override { return "embedding"; }
  BenchmarkKind row_kind() const override { return BenchmarkKind::kEmbedding; }
  // Forms: residual (default, where there are rows enough) and physics.
  absl::StatusOr<std::unique_ptr<FittedModels>> Fit(std::span<const BenchmarkRow> rows,
                                                    const FitOptions& options) const override;
  absl::StatusOr<std::pair<CalibrationHeader, std::unique_ptr<FittedModels>>> Load(
      const std::string& path) const override;
  // The prior's parameters are where the fit starts from, with the usual spreads; its residuals are
  // for its own device alone.
  absl::StatusOr<std::unique_ptr<FittedModels>> Adapt(
      const FittedModels& prior, std::span<const BenchmarkRow> rows) const override;
  // every-third point (all passes of one), odd-ranks and odd-steps of traces.
  std::vector<std::string_view> Forms() const override { return {"residual", "physics"}; }
  std::vector<std::string_view> HoldOutRules() const override {
    return {"every-third", "odd-ranks", "odd-steps"};
  }
  absl::StatusOr<RowSplit> Split(std::span<const BenchmarkRow> rows, std::string_view rule,
                                 uint64_t seed) const override;
};

}  // namespace foretrace
