#pragma once
// What `foretrace calibrate KIND` needs of a family of cost models: rows of the neutral CSV in,
// models for a calibration file out, and predictions for rows that took no part.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "simulator/base/progress.h"
#include "simulator/base/statistics.h"
#include "simulator/calibrate/csv_table.h"
#include "simulator/cost/calibration_file.h"

namespace foretrace {

// One measured row beside its prediction. `row` points into the rows that were evaluated.
struct EvaluatedRow {
  const BenchmarkRow* row = nullptr;
  std::string model;  // "linear float32 forward", "all_reduce ranks=8 nodes=1 ..."
  double predicted_us = 0;
  bool extrapolated = false;  // outside the calibrated range
  // Whose model answers where none is of the row's own stack, such as another version's; else
  // empty.
  std::string by = {};
};

struct FitOptions {
  uint64_t seed = 1;
  // One of Fitter::Forms(); empty: the default.
  std::string form;
  Interconnect interconnect = Interconnect::kUnknown;
  // Told before each model of the fit; empty: nobody.
  ProgressSink progress;
};

// The outcome of a fit: what the calibration file will say. Immutable and thread-safe.
class FittedModels {
 public:
  virtual ~FittedModels() = default;
  // The YAML from `models:` on, with shortest round-trip doubles.
  virtual std::string ToYaml() const = 0;
  // Whether they make a calibration file, or only predict rows.
  virtual absl::Status Writable() const { return absl::OkStatus(); }
  // Files to write beside the YAML (name within the platform's folder, bytes), such as a residual.
  virtual std::vector<std::pair<std::string, std::string>> SideFiles() const { return {}; }
  // Predicts the rows that the models cover; others are left out.
  virtual std::vector<EvaluatedRow> Evaluate(std::span<const BenchmarkRow> rows) const = 0;
  // What the fit left out and why, one line each; for the user.
  virtual std::vector<std::string> Notes() const { return {}; }
  // How rows of a platform are predicted that is another than the fitted one, a line each.
  virtual std::vector<std::string> NotesOn(const std::string& /* platform */) const { return {}; }
};

// Rows that took part in a fit, and those held out.
struct RowSplit {
  std::vector<BenchmarkRow> train;
  std::vector<BenchmarkRow> test;
};

// One family of models: collective, kernel, overheads, embedding, memory.
class Fitter {
 public:
  virtual ~Fitter() = default;
  // Whether what was fitted on one platform predicts another's rows, by the file of its device.
  virtual bool CarriesOver() const { return false; }
  // The header's kind and the file's name without extension: "collective" and "collectives".
  virtual std::string_view kind() const = 0;
  virtual std::string_view file_stem() const = 0;
  // The rows of a table that this family fits.
  virtual BenchmarkKind row_kind() const = 0;
  // Deterministic: the same rows in the same order and the same options give the same bytes.
  virtual absl::StatusOr<std::unique_ptr<FittedModels>> Fit(std::span<const BenchmarkRow> rows,
                                                            const FitOptions& options) const = 0;
  // Reads back a calibration file and what lies beside it.
  virtual absl::StatusOr<std::pair<CalibrationHeader, std::unique_ptr<FittedModels>>> Load(
      const std::string& path) const = 0;
  // Whether Adapt can do anything.
  virtual bool Adapts() const { return true; }
  // The prior's models corrected with a few measured rows of another machine.
  virtual absl::StatusOr<std::unique_ptr<FittedModels>> Adapt(
      const FittedModels& prior, std::span<const BenchmarkRow> rows) const = 0;
  // What FitOptions::form can be, the default first; empty: the family has one form.
  virtual std::vector<std::string_view> Forms() const { return {}; }
  // Whether a fit depends on FitOptions::seed.
  virtual bool Draws() const { return true; }
  // The rules that Split knows, such as "every-third"; the first is the default.
  virtual std::vector<std::string_view> HoldOutRules() const = 0;
  // Errors: another rule.
  virtual absl::StatusOr<RowSplit> Split(std::span<const BenchmarkRow> rows, std::string_view rule,
                                         uint64_t seed) const = 0;
};

// Errors: a rule that Split does not know, or a form that there is not, with those that there are.
absl::Status CheckHoldOutRule(const Fitter& fitter, std::string_view rule);
absl::Status CheckForm(const Fitter& fitter, std::string_view form);

// Errors of one model, as `calibrate --test` prints them.
struct ModelErrors {
  std::string name;
  ErrorSummary errors;
  // Of the absolute errors, in per cent of the measured value.
  double median_percent = 0;
  double p90_percent = 0;
  size_t extrapolated_count = 0;
};
// By model in order of name; the last entry is "all".
std::vector<ModelErrors> SummarizeByModel(std::span<const EvaluatedRow> rows);

}  // namespace foretrace
