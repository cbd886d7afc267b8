#pragma once
// What measured runs of an engine showed of its steps, where all that is known of them is modelled:
// one factor for steps of decodes alone and one for those with a prompt.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/serve/run_validation.h"

namespace foretrace::serve {

struct StepFactors {
  double decodes = 1, prompts = 1;
  std::string model, device;  // of the runs that they were fitted to
  std::string file;           // empty: fitted here
};

// A file that Yaml made. Errors name file and key.
absl::StatusOr<StepFactors> ReadStepFactors(const std::string& file);

// Says where they were fitted to another model or device.
void NoteOthers(const StepFactors& factors, const std::string& model, const std::string& device,
                std::vector<std::string>& notes);

std::shared_ptr<const StepModel> WithFactors(std::shared_ptr<const StepModel> steps,
                                             const StepFactors& factors);

// A measured run and the steps that it is simulated with.
struct PreparedRun {
  MeasuredRun run;
  std::shared_ptr<const StepModel> steps;
};

// Factors whose simulations come nearest to the runs: least squares of the logarithms of mean time
// to the first token, mean time per token and throughput, each as many. Deterministic.
absl::StatusOr<StepFactors> FitStepFactors(std::span<const PreparedRun> runs);

// What the fit did: each run as modelled, with factors of all runs, and with those of the others.
struct StepFactorFit {
  StepFactors factors;
  struct Of {
    RunValidation modelled, fitted;
    std::optional<RunValidation> held_out;  // of two or more runs
  };
  std::vector<Of> runs;
};
absl::StatusOr<StepFactorFit> FitAndHoldOut(std::span<const PreparedRun> runs);

std::string Yaml(const StepFactorFit& fit);
std::string StepFactorText(const StepFactorFit& fit);
std::string StepFactorJson(const StepFactorFit& fit);

}  // namespace foretrace::serve
