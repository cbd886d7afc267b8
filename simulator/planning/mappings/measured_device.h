#pragma once
// The calibrated kernels and collectives of a platform's device, as the iteration model asks for
// them.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/mapping/device_measurements.h"
#include "simulator/topology/platform.h"

namespace foretrace {

// `kernels`: "none"; a folder of calibration files or the name of one in calibration/; or "auto":
// the one in calibration/ whose kernels.yaml is of this device, else of a sibling
// (cost/kernel/device_match.h), which `notes` then say; `files` learns what was read. Collectives
// are taken where the folder's were measured on nodes connected alike. Null for "none" and where
// "auto" finds none. Errors: a named calibration that cannot be read or is of another device.
absl::StatusOr<std::shared_ptr<const DeviceMeasurements>> FindMeasurements(
    const std::string& kernels, const NodeSpec& node, std::vector<std::string>& notes,
    std::vector<std::string>& files);

}  // namespace foretrace
