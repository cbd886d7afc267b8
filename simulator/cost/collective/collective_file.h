#pragma once
// Calibration files of kind "collective".

#include <string>

#include "absl/status/statusor.h"
#include "simulator/cost/collective/collective_calibration.h"

namespace foretrace {

// The `models:` section.
std::string CollectiveModelsYaml(const std::vector<CollectiveModel>& models);

absl::StatusOr<CollectiveCalibration> ParseCollectiveCalibration(const std::string& path,
                                                                 const std::string& text);
absl::StatusOr<CollectiveCalibration> LoadCollectiveCalibration(const std::string& path);

}  // namespace foretrace
