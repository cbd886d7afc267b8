#pragma once
// The family "memory" of `foretrace calibrate`: copies by direction and host memory.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "simulator/base/estimate.h"
#include "simulator/base/units.h"
#include "simulator/cost/collective/collective_curve.h"
#include "simulator/cost/fitting/fitter.h"

namespace foretrace {

// Time of a copy by its size: the same curve as a collective's, with bus factor 1.
struct CopyModel {
  std::string direction;  // htod, dtoh, dtod, htoh
  bool pinned = false;    // of the host side
  int64_t min_bytes = 0;  // measured range
  int64_t max_bytes = 0;
  int64_t points = 0;
  CollectiveCurve curve;

  std::string Name() const;
};

class FittedMemory : public FittedModels {
 public:
  explicit FittedMemory(std::vector<CopyModel> models) : models_(std::move(models)) {}
  std::string ToYaml() const override;
  std::vector<EvaluatedRow> Evaluate(std::span<const BenchmarkRow> rows) const override;
  // nullopt where the direction was not measured.
  std::optional<Estimate> CopyTime(std::string_view direction, bool pinned, Bytes bytes) const;
  const std::vector<CopyModel>& models() const { return models_; }

 private:
  const CopyModel* Find(std::string_view direction, bool pinned) const;
  std::vector<CopyModel> models_;
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
  std::vector<std::string_view> HoldOutRules() const override { return {"every-third"}; }
  absl::StatusOr<RowSplit> Split(std::span<const BenchmarkRow> rows, std::string_view rule,
                                 uint64_t seed) const override;
};

}  // namespace foretrace
