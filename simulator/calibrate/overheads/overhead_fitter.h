#pragma once
// The family "overheads" of `foretrace calibrate`: constants of the host and the driver, such as
// launch latency, measured by themselves.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "simulator/base/time.h"
#include "simulator/calibrate/fitter.h"

namespace foretrace {

// The median over the measurements of one name, for one operator where the row names it.
struct OverheadConstant {
  std::string name;  // launch_latency, kernel_gap, event_latency, sync_return, ...
  std::string op;    // empty: any
  double median_us = 0;
  double spread_us = 0;  // half the distance between the quartiles
  int64_t points = 0;

  std::string Name() const;
};

class FittedOverheads : public FittedModels {
 public:
  explicit FittedOverheads(std::vector<OverheadConstant> models) : models_(std::move(models)) {}
  std::string ToYaml() const override;
  std::vector<EvaluatedRow> Evaluate(std::span<const BenchmarkRow> rows) const override;
  // That of the operator, else that of any operator, else nullopt.
  std::optional<SimTime> Overhead(std::string_view name, std::string_view op = "") const;
  const std::vector<OverheadConstant>& models() const { return models_; }

 private:
  const OverheadConstant* Find(std::string_view name, std::string_view op) const;
  std::vector<OverheadConstant> models_;
};

class OverheadFitter : public Fitter {
 public:
  std::string_view kind() const override { return "overheads"; }
  std::string_view file_stem() const override { return "overheads"; }
  BenchmarkKind row_kind() const override { return BenchmarkKind::kOverhead; }
  absl::StatusOr<std::unique_ptr<FittedModels>> Fit(std::span<const BenchmarkRow> rows,
                                                    const FitOptions& options) const override;
  absl::StatusOr<std::pair<CalibrationHeader, std::unique_ptr<FittedModels>>> Load(
      const std::string& path) const override;
  // The new machine's medians where it has any, the prior's elsewhere.
  absl::StatusOr<std::unique_ptr<FittedModels>> Adapt(
      const FittedModels& prior, std::span<const BenchmarkRow> rows) const override;
  bool Draws() const override { return false; }  // means
  std::vector<std::string_view> HoldOutRules() const override { return {"every-third"}; }
  absl::StatusOr<RowSplit> Split(std::span<const BenchmarkRow> rows, std::string_view rule,
                                 uint64_t seed) const override;
};

}  // namespace foretrace
