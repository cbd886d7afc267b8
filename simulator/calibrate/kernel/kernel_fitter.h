#pragma once
// The family "kernel" of `foretrace calibrate`.

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "simulator/calibrate/fitter.h"
#include "simulator/cost/kernel/kernel_model.h"

namespace foretrace {

class FittedKernels : public FittedModels {
 public:
  FittedKernels(KernelModels models, std::vector<std::string> notes);

  std::string ToYaml() const override;
  std::vector<std::pair<std::string, std::string>> SideFiles() const override;
  // As measured: launch and measurement overhead of the fitted source included. Rows of another
  // device are predicted with its file (CarriedTo).
  std::vector<EvaluatedRow> Evaluate(std::span<const BenchmarkRow> rows) const override;
  std::vector<std::string> Notes() const override { return notes_; }
  std::vector<std::string> NotesOn(const std::string& platform) const override;
  const KernelModels& models() const { return models_; }

 private:
  KernelModels models_;
  std::vector<std::string> notes_;
};

// Where a calibration is named: none, the files of devices alone.
inline constexpr std::string_view kNoCalibration = "none";

// "gemm half forward"; element-wise kernels with what they compute.
std::string ModelNameOf(const BenchmarkRow& row, const KernelKey& key);

// Which of `parts` the weight matrix (n, k) is in; "unseen-nk" holds the first of five out. Other
// than the parts by which fits judge their own residuals, so that neither leaves the other without.
uint64_t PartOfMatrix(int64_t n, int64_t k, uint64_t parts, uint64_t seed);

class KernelFitter : public Fitter {
 public:
  std::string_view kind() const override { return "kernel"; }
  std::string_view file_stem() const override { return "kernels"; }
  BenchmarkKind row_kind() const override { return BenchmarkKind::kKernel; }
  bool CarriesOver() const override { return true; }
  // One model per KernelKey. The form "roofline" leaves the residuals out.
  absl::StatusOr<std::unique_ptr<FittedModels>> Fit(std::span<const BenchmarkRow> rows,
                                                    const FitOptions& options) const override;
  // `path` may be kNoCalibration.
  absl::StatusOr<std::pair<CalibrationHeader, std::unique_ptr<FittedModels>>> Load(
      const std::string& path) const override;
  // Rooflines refitted to the rows (about 20 an operator) of the new device, with residuals from
  // 200 rows on; models without at least 5 rows keep the prior's efficiencies. Residuals carry over
  // only between boards of one chip.
  absl::StatusOr<std::unique_ptr<FittedModels>> Adapt(
      const FittedModels& prior, std::span<const BenchmarkRow> rows) const override;
  // "random-fifth": a fifth of the rows. "unseen-nk": a fifth of the (n, k) pairs of GEMMs, with
  // all their rows. "twenty": all but 20 rows of each model, spaced evenly, others for each seed;
  // for use with Adapt.
  std::vector<std::string_view> Forms() const override { return {"residual", "roofline"}; }
  std::vector<std::string_view> HoldOutRules() const override {
    return {"random-fifth", "unseen-nk", "unseen-heads", "twenty"};
  }
  absl::StatusOr<RowSplit> Split(std::span<const BenchmarkRow> rows, std::string_view rule,
                                 uint64_t seed) const override;
};

}  // namespace foretrace
