#pragma once
// The family "expert-exchange" of `foretrace calibrate`.

#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "simulator/calibrate/collective/exchange_fit.h"
#include "simulator/calibrate/fitter.h"

namespace foretrace {

class FittedExchanges : public FittedModels {
 public:
  explicit FittedExchanges(ExchangeFit fit) : fit_(std::move(fit)) {}

  std::string ToYaml() const override;
  absl::Status Writable() const override;
  // By algorithm, direction and number of nodes.
  std::vector<EvaluatedRow> Evaluate(std::span<const BenchmarkRow> rows) const override;
  std::vector<std::string> Notes() const override;

 private:
  ExchangeFit fit_;
};

class ExchangeFitter : public Fitter {
 public:
  bool CarriesOver() const override { return true; }  // rows state their links
  std::string_view kind() const override { return "expert-exchange"; }
  std::string_view file_stem() const override { return "expert_exchange"; }
  BenchmarkKind row_kind() const override { return BenchmarkKind::kExchange; }
  absl::StatusOr<std::unique_ptr<FittedModels>> Fit(std::span<const BenchmarkRow> rows,
                                                    const FitOptions& options) const override;
  absl::StatusOr<std::pair<CalibrationHeader, std::unique_ptr<FittedModels>>> Load(
      const std::string& path) const override;
  // Constants of kernels do not follow from a few rows.
  bool Adapts() const override { return false; }
  absl::StatusOr<std::unique_ptr<FittedModels>> Adapt(
      const FittedModels& prior, std::span<const BenchmarkRow> rows) const override;
  // "shapes": within a node every third hidden size with its experts of a token, of any number of
  // experts; --seed chooses which third. "nodes": one of the numbers of nodes above one, --seed
  // chooses which.
  std::vector<std::string_view> HoldOutRules() const override { return {"shapes", "nodes"}; }
  absl::StatusOr<RowSplit> Split(std::span<const BenchmarkRow> rows, std::string_view rule,
                                 uint64_t seed) const override;
};

}  // namespace foretrace
