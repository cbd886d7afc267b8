#pragma once
// Measured runs of inference engines against the simulation, from layer profiles.

#include <string>

#include "absl/status/statusor.h"
#include "simulator/serve/run_validation.h"

namespace foretrace {

struct ServingValidationOptions {
  std::string run;       // a folder (serve/measured_run.h)
  std::string profiles;  // a folder of layer profiles, or of folders of them; empty: beside the run
  // For several devices; empty: the shipped one with PCIe alone between the run's device.
  std::string platform;
};

absl::StatusOr<serve::RunValidation> ValidateServing(const ServingValidationOptions& options);

}  // namespace foretrace
