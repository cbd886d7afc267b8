#pragma once
// The family "collective" of `foretrace calibrate`.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "simulator/calibrate/fitter.h"
#include "simulator/cost/collective/collective_calibration.h"

namespace foretrace {

class FittedCollectives : public FittedModels {
 public:
  FittedCollectives(CollectiveCalibration calibration, std::vector<std::string> notes);

  std::string ToYaml() const override;
  // By the row's own sweep where the models have it, else as a prediction would look it up.
  std::vector<EvaluatedRow> Evaluate(std::span<const BenchmarkRow> rows) const override;
  std::vector<std::string> Notes() const override { return notes_; }
  const CollectiveCalibration& calibration() const { return calibration_; }

 private:
  CollectiveCalibration calibration_;
  std::vector<std::string> notes_;
};

class CollectiveFitter : public Fitter {
 public:
  std::string_view kind() const override { return "collective"; }
  std::string_view file_stem() const override { return "collectives"; }
  BenchmarkKind row_kind() const override { return BenchmarkKind::kCollective; }
  // One curve per (op, ranks, nodes, in-place, dtype, library, source) of at least three sizes.
  // The form three_region falls back to the curve below 20 sizes.
  absl::StatusOr<std::unique_ptr<FittedModels>> Fit(std::span<const BenchmarkRow> rows,
                                                    const FitOptions& options) const override;
  absl::StatusOr<std::pair<CalibrationHeader, std::unique_ptr<FittedModels>>> Load(
      const std::string& path) const override;
  // Needs at least three sizes per operation and set of ranks; other models of the prior are left
  // out, since nothing is known of them on the new machine.
  absl::StatusOr<std::unique_ptr<FittedModels>> Adapt(
      const FittedModels& prior, std::span<const BenchmarkRow> rows) const override;
  // "every-third": in each sweep the 3rd, 6th, ... size is held out. "powers-of-two": sizes that
  // are powers of two train, all others are held out. "three-points": three sizes of each sweep
  // train (smallest, largest, and the one nearest to their geometric mean), for use with Adapt.
  // "ranks": each measured number of ranks between two others is held out, within a node.
  std::vector<std::string_view> Forms() const override { return {"curve", "three_region"}; }
  std::vector<std::string_view> HoldOutRules() const override {
    return {"every-third", "powers-of-two", "three-points", "ranks"};
  }
  absl::StatusOr<RowSplit> Split(std::span<const BenchmarkRow> rows, std::string_view rule,
                                 uint64_t seed) const override;
};

}  // namespace foretrace
