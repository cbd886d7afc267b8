#pragma once
// Measured runs against the simulation.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/json_writer.h"
#include "simulator/serve/measured_run.h"

namespace foretrace::serve {

struct RunValidation {
  std::string run;
  std::string source;  // of step times
  size_t requests = 0;
  ServingSummary predicted;
  Distribution measured_ttft, measured_tpot, measured_e2e;
  double measured_tokens_per_s = 0;
  // Signed, predicted over measured, in per cent.
  double ttft_mean_error = 0, ttft_p90_error = 0, tpot_mean_error = 0, e2e_mean_error = 0,
         throughput_error = 0;
  int64_t preemptions = 0, steps = 0;
  double prefix_hit_share = 0;
  StepTime time;
  std::vector<std::string> notes;
};

// Times count from when the engine took notice of a request, as the run's do.
absl::StatusOr<RunValidation> ValidateRun(const MeasuredRun& run,
                                          std::shared_ptr<const StepModel> step);

// The five errors, as members of the object that is open.
void WriteErrorFields(PrettyJsonWriter& out, const RunValidation& v);

std::string RunValidationText(const RunValidation& result);
std::string RunValidationJson(const RunValidation& result);

}  // namespace foretrace::serve
