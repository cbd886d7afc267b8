#pragma once
// The calibrated kernels and collectives of a platform's device, as the iteration model asks for
// them.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/dtype.h"
#include "simulator/hardware/accelerator.h"
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

// The same of a platform. Where its links within a node are faster or slower than those that
// collectives were measured over (a board with fewer of a chip's links, a platform of one's own, a
// sweep), each takes as many times what was measured as the network model of the platform takes
// what that of the same platform with those links takes, and counts as extrapolated; not where
// links are not known, or are no switch's. Errors: also a platform of which there is no topology.
absl::StatusOr<std::shared_ptr<const DeviceMeasurements>> MeasurementsOn(
    const PlatformSpec& platform, const std::string& kernels, std::vector<std::string>& notes,
    std::vector<std::string>& files);

// Of a model in bfloat16 on a device whose file states no rate of that, and which is timed by
// float16's; else empty.
std::string BfloatNote(const Accelerator& device, DType dtype);

}  // namespace foretrace
