#pragma once
// The family "memory" of `foretrace calibrate`: copies by direction and host memory.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "simulator/calibrate/fitter.h"
#include "simulator/cost/memcpy/copy_models.h"

namespace foretrace {

class FittedMemory : public FittedModels {
 public:
  explicit FittedMemory(CopyModels copies) : copies_(std::move(copies)) {}
  std::string ToYaml() const override { return CopyModelsYaml(copies_); }
  std::vector<EvaluatedRow> Evaluate(std::span<const BenchmarkRow> rows) const override;
  const CopyModels& copies() const { return copies_; }

 private:
  CopyModels copies_;
};

class MemoryFitter : public Fitter {
 public:
  std::string_view kind() const override { return "memory"; }
  std::string_view file_stem() const override { return "memory"; }
  BenchmarkKind row_kind() const override { return BenchmarkKind::kMemory; }
  absl::StatusOr<std::unique_ptr<FittedModels>> Fit(std::span<const BenchmarkRow> rows,
                                                    const FitOptions& options) const override;
  absl::StatusOr<std::pair<CalibrationHeader, std::unique_ptr<FittedModels>>> Load(
      const std::string& path) const override;
  // At least three sizes per direction.
  absl::StatusOr<std::unique_ptr<FittedModels>> Adapt(
      const FittedModels& prior, std::span<const BenchmarkRow> rows) const override;
  // every-third copy of a direction, odd-ranks and odd-steps of traces.
  std::vector<std::string_view> HoldOutRules() const override {
    return {"every-third", "odd-ranks", "odd-steps"};
  }
  absl::StatusOr<RowSplit> Split(std::span<const BenchmarkRow> rows, std::string_view rule,
                                 uint64_t seed) const override;
};

}  // namespace foretrace
