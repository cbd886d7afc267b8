#pragma once
// predict --on: a recording on another device.

#include <memory>

#include "absl/status/statusor.h"
#include "simulator/hardware/catalog.h"
#include "simulator/replay/durations/durations.h"

namespace foretrace {

// Device work as recorded, times what models say of `target` over what they say of the device that
// was recorded on (cost/retarget/): calibrated models where both devices have them, else the
// analytic ones of their files. On a device of the same kind everything stays as recorded.
// `calibration` may be null; its kernels are those of the target. Errors: a recording of no or of
// an unknown device; infeasible: models cover less than 95 % of the recorded device time.
absl::StatusOr<std::unique_ptr<DurationModels>> MakeRetargetModels(
    const Accelerator& target, const CalibrationSet* calibration,
    const AcceleratorCatalog& accelerators, const TraceStore& store);

// Whether the recording was made on what decides durations as `target` does.
bool RecordedOn(const Accelerator& target, const AcceleratorCatalog& accelerators,
                const TraceStore& store);

}  // namespace foretrace
