#pragma once
// Whether a calibration is of a device: the one rule of all commands.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "simulator/cost/kernel/gpu_peaks.h"
#include "simulator/cost/kernel/kernel_model.h"

namespace foretrace {

// Kernel models for a device from what was calibrated. A calibration of the same device
// (DeviceMatch) is taken as it is. Of a sibling, tiles, waves and caches carry over to the device's
// own rates and memory, which `notes` then say. Errors: a calibration of another device; `what`
// names it.
absl::StatusOr<std::shared_ptr<const KernelModels>> KernelsOn(
    const GpuPeaks& device, std::shared_ptr<const KernelModels> calibrated, const std::string& what,
    std::vector<std::string>& notes);

// The same of any device: of another chip, what was learnt from the measurements is left behind,
// and the efficiencies alone go on.
KernelModels CarriedTo(const GpuPeaks& device, const KernelModels& calibrated);

// The refusal of KernelsOn, for models of other families.
absl::Status CheckDevice(const Accelerator& device, const Accelerator& calibrated,
                         const std::string& what);

}  // namespace foretrace
