#pragma once
// Measured training jobs (mapping/training_rows.h) against the simulation.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/mapping/training_rows.h"
#include "simulator/planning/mappings/mapping_validation.h"

namespace foretrace {

struct JudgedRow {
  TrainingRow row;  // refused: no prediction
  SimTime predicted;
  double error = 0;  // signed share
  // Of the prediction times the slowdown that other models' rows of the stack show; without such
  // rows none.
  std::optional<double> fitted_error;
  double memory_gib = 0;    // predicted, of the fullest stage's devices, as allocated
  double reserved_gib = 0;  // the same as reserved, of rows whose memory is judged
  double device_gib = 0;    // what a device has; 0: not known
  bool assumes = false;     // it is taken otherwise than it states, or with something assumed
  bool cpu_bound = false;   // its step waits for the CPU

  bool judged() const { return row.refused.empty(); }
  bool timed() const { return judged() && !row.out_of_memory; }
  // Whether it is predicted to go out of memory, with what a process holds beside the allocator.
  bool overflows() const;
  // Whether it ran though its tensors alone are predicted not to fit.
  bool exceeds() const { return timed() && device_gib > 0 && memory_gib > device_gib; }
};

struct TrainingValidation {
  std::vector<JudgedRow> rows;
  ErrorSummary summary;
  double median_percent = 0;
  size_t refused = 0;
  size_t out_of_memory = 0, out_of_memory_predicted = 0;  // runs that were; of these as predicted
  double calibrated = 0, extrapolated = 0;                // shares of all kernel time
  ErrorSummary memory_summary;                            // of rows that state what was allocated
  ErrorSummary reserved_summary;  // of rows that state what the allocator reserved
  bool fitted = false;
  ErrorSummary fitted_summary;
  std::vector<std::string> notes;
};

// Each row on `options.platform`, or where that is empty on the shipped platform whose devices and
// nodes are most like the row's. `options.workloads`: a folder of further models. With
// `options.fit_stacks` also with one efficiency a stack, fitted to its other models.
absl::StatusOr<TrainingValidation> ValidateTrainingRows(const MappingValidationOptions& options);

std::string TrainingValidationText(const TrainingValidation& result, const TextStyle& style);
std::string TrainingValidationJson(const TrainingValidation& result);

}  // namespace foretrace
