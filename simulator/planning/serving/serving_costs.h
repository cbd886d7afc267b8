#pragma once
// What kernels and transfers of an engine's devices take on a platform.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/serve/device_costs.h"
#include "simulator/topology/platform.h"

namespace foretrace {

// `kernels` as FindMeasurements takes it: all-reduces are those measured on nodes connected alike,
// collectives those of calibration/PLATFORM where there is one, all others the closed forms of the
// platform's topology. Errors: a platform whose device
// states neither rates nor memory, a calibration of another device. `experts`: whether
// ExpertTransfer is asked for.
absl::StatusOr<std::shared_ptr<const serve::DeviceCosts>> MakeDeviceCosts(
    const PlatformSpec& platform, const std::string& kernels, bool experts,
    std::vector<std::string>& notes);

}  // namespace foretrace
