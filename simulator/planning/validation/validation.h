#pragma once
// Predicted against measured, without leaks: what is judged, held out and left out.

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/statistics.h"
#include "simulator/planning/validation/duration_errors.h"
#include "simulator/replay/simulation_setup.h"
#include "simulator/replay/step_errors.h"
#include "simulator/replay/trace_options.h"
#include "simulator/report/text_table.h"

namespace foretrace {

struct ValidationCase {
  std::string name;
  TraceOptions traces;
  SimulationOptions simulation;
  // Measured iteration time of the slowest rank; unset: the step marks recorded in the traces.
  std::optional<SimTime> measured;
  std::string overheads_from_ranks;
  std::string overheads_from_steps;
};

struct ValidatedStep {
  std::string case_name;
  int32_t rank = 0;
  StepError error;
  bool judged = true;  // counts in the summary
  // With modelled durations: the signed error when recorded ones are replayed instead.
  std::optional<double> replay_error;
};

struct AblationRow {
  std::string case_name;
  std::string variant;
  size_t steps = 0;
  double mape_percent = 0;
  double max_percent = 0;
};

struct ValidationResult {
  std::vector<ValidatedStep> steps;
  std::vector<AblationRow> ablation;
  std::vector<DurationErrorRow> durations;   // with modelled durations
  std::vector<DurationPair> duration_pairs;  // what these sum up
  // Of recordings whose replay has not understood the job, whatever its step errors
  // (docs/semantics.md, "Leaks").
  std::vector<std::string> doubts;
  std::vector<std::string> notes;
  std::vector<std::string> skipped;
  ErrorSummary summary;
  // By the other definitions of a step (docs/semantics.md).
  ErrorSummary completion;
  ErrorSummary period;
  RealUs kernel_start_median;  // over all device work of judged steps
  RealUs kernel_start_p90;
};

// `cases:` with name, traces (paths relative to the file, or starting with $FORETRACE_REALDATA),
// and optionally allow_missing_ranks, measured_us, overheads_from_ranks, overheads_from_steps,
// process_groups, platform, network, durations. Errors name file, line and key.
absl::StatusOr<std::vector<ValidationCase>> LoadCases(const std::string& file);

absl::Status ValidateCase(const ValidationCase& c, bool ablation, const CommandContext& context,
                          ValidationResult& result);
void Summarize(ValidationResult& result);

std::string ValidationText(const ValidationResult& result, const TextStyle& style);
std::string ValidationJson(const ValidationResult& result);

}  // namespace foretrace
