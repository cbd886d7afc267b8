#pragma once
// Which of the calibrations that ship is of a device.

#include <string>

#include "absl/status/statusor.h"
#include "simulator/hardware/accelerator.h"

namespace foretrace {

// The folder in calibration/ whose kernels are of the device, else those of the
// sibling (hardware/accelerator.h) of most like power; empty where there is none.
absl::StatusOr<std::string> FindKernelCalibration(const Accelerator& device);

}  // namespace foretrace
