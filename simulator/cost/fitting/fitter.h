#pragma once
// What `foretrace calibrate KIND` needs of a family of cost models: rows of the neutral CSV in, a
// model section for a calibration file out, and errors on rows that took no part.

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "simulator/base/statistics.h"
#include "simulator/cost/csv_table.h"

namespace foretrace {

// Errors of one fitted model on rows that it did or did not see.
struct ModelErrors {
  std::string name;              // "linear float32 forward", "all_reduce ranks=8 node"
  ErrorSummary errors;
  size_t extrapolated_count = 0;  // rows outside the calibrated range
};

// One measured row beside its prediction, for plots and for residual tables.
struct EvaluatedRow {
  const BenchmarkRow* row = nullptr;
  std::string model;
  double predicted_us = 0;
  bool extrapolated = false;
};

struct FitOptions {
  uint64_t seed = 1;
  // Family-specific choice of the form, such as "curve" or "three_region"; empty: the default.
  std::string form;
};

// The outcome of a fit: what the calibration file will say. Immutable and thread-safe.
class FittedModels {
 public:
  virtual ~FittedModels() = default;
  // The YAML body below `models:` (two spaces of indent), with shortest round-trip doubles.
  virtual std::string ToYaml() const = 0;
  // Files to write beside the YAML (name within the platform's folder, bytes), such as a residual.
  virtual std::vector<std::pair<std::string, std::string>> SideFiles() const { return {}; }
  // Predicts every row that the models cover; rows that they do not cover are left out.
  virtual std::vector<EvaluatedRow> Evaluate(std::span<const BenchmarkRow> rows) const = 0;
};

// One family of models: collective, kernel, overheads, embedding, memory.
class Fitter {
 public:
  virtual ~Fitter() = default;
  virtual std::string_view family() const = 0;
  // Deterministic: the same rows in the same order and the same options give the same bytes.
  virtual absl::StatusOr<std::unique_ptr<FittedModels>> Fit(std::span<const BenchmarkRow> rows,
                                                            const FitOptions& options) const = 0;
  // Reads back what ToYaml and SideFiles wrote. `path` is the calibration file.
  virtual absl::StatusOr<std::unique_ptr<FittedModels>> Load(const std::string& path) const = 0;
  // Corrects `prior` with a few measured rows of another machine.
  virtual absl::StatusOr<std::unique_ptr<FittedModels>> Adapt(
      const FittedModels& prior, std::span<const BenchmarkRow> rows) const = 0;
};

// Groups evaluated rows by model, in order of name, with a last entry "all".
std::vector<ModelErrors> SummarizeByModel(std::span<const EvaluatedRow> rows);

}  // namespace foretrace
