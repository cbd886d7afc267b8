#pragma once
// Measured runs of inference engines against the simulation, from layer profiles.

#include <string>

#include "absl/status/statusor.h"
#include "simulator/serve/step_factors.h"

namespace foretrace {

struct ServingValidationOptions {
  std::string run;       // a folder (serve/measured_run.h)
  std::string profiles;  // a folder of layer profiles, or of folders of them; empty: beside the run
  // For several devices; empty: the shipped one with PCIe alone between the run's device.
  std::string platform;
  std::string step_factors;  // a file of serve/step_factors.h
};

// The run with all that it leaves out, and its steps: from the layer profile of its model, device
// and degree. Errors: no such profile.
absl::StatusOr<serve::PreparedRun> PrepareRun(const ServingValidationOptions& options);

absl::StatusOr<serve::RunValidation> ValidateServing(const ServingValidationOptions& options);

}  // namespace foretrace
