#pragma once
// Measured iterations of mappings against the simulation.

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/progress.h"
#include "simulator/base/statistics.h"
#include "simulator/mapping/measured_mappings.h"
#include "simulator/report/text_table.h"

namespace foretrace {

struct MappingValidationOptions {
  std::string rows;
  // Rows that parameters are fitted to; empty: nothing is fitted.
  std::vector<std::string> fit;
  // Predict each half of the rows with parameters fitted to the other.
  bool hold_out_half = false;
  // One efficiency a software stack, fitted to its rows of other models (tables that name models).
  bool fit_stacks = false;
  std::string recompute = "full";
  int64_t vocabulary = 51200;
  std::string workload;   // gives the vocabulary
  std::string workloads;  // a folder of models that rows name
  std::string platform;
  std::string calibration = "none";
  std::string kernels = "auto";
  bool dataflow = false;  // iterations by the dataflow model (dataflow_iteration.h)
  ProgressSink progress;
};

struct ValidatedMapping {
  std::string name, model, mapping;
  SimTime measured, predicted;
  double error = 0;  // signed share
};

// Rows of one model on one number of devices with one batch.
struct MappingRanking {
  std::string model;
  size_t rows = 0;
  double spearman = 0;  // of times; equal predictions share their ranks
  double regret = 0;    // of the fastest by prediction, the mean over ties, as a share
};

struct MappingValidation {
  std::vector<ValidatedMapping> rows;
  std::vector<MappingRanking> rankings;  // of three rows and more
  ErrorSummary summary;
  double median_percent = 0;
  std::vector<std::string> notes;
};

absl::StatusOr<MappingValidation> ValidateMappings(const MappingValidationOptions& options);

std::string MappingValidationText(const MappingValidation& result, const TextStyle& style);
std::string MappingValidationJson(const MappingValidation& result);

// Rank correlation; equal values share the mean of their ranks. 0 where one side is constant.
double Spearman(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace foretrace
