#pragma once
// Calibration files of kind "expert-exchange", and what a platform has for exchanges with experts.

#include <string>

#include "absl/status/statusor.h"
#include "simulator/cost/calibration_file.h"
#include "simulator/cost/collective/expert_exchange.h"
#include "simulator/topology/platform.h"

namespace foretrace {

// The `models:` of an expert_exchange.yaml, which HeaderYaml begins.
std::string ExpertExchangeYaml(const ExpertExchangeModel& model);

struct LoadedExpertExchange {
  CalibrationHeader header;
  ExpertExchangeModel model;
};
// Errors: not such a calibration, constants that are unknown, negative or too large.
absl::StatusOr<LoadedExpertExchange> LoadExpertExchange(const std::string& path);

// The shipped calibration. Its kernels' constants are of H100, shares of links among them, and
// serve other GPUs with their own links. Errors: it is missing or cannot be read.
absl::StatusOr<LoadedExpertExchange> ShippedExpertExchange();

// NVLinks of a switch, all of a device's; of a mesh, those to the others together. NICs shared
// evenly. Zero where the platform has none.
ExpertLinks LinksOf(const PlatformSpec& platform);

}  // namespace foretrace
