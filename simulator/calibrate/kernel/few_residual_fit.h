#pragma once
// What the sizes of a GEMM say of a few rows, beside the roofline.

#include <span>

#include "absl/status/status.h"
#include "simulator/calibrate/kernel/kernel_fit.h"

namespace foretrace {

// Trees over the sizes of a GEMM, on what the roofline leaves of a few rows: what a GPU's caches
// and its power make of sizes differs between chips by more than a factor (operands of 64 Ki
// columns take a P100 2.6 times its roofline's time). What is left goes over steps in places, which
// small trees find, and grows with sizes in others, which kriging follows: the one, the other or
// the mean of both, or nothing, as rows that took no part say. Trees that are kept follow kriging
// between the least and the greatest sizes measured. Errors: what the training of trees says.
absl::Status FitFewResiduals(const GpuPeaks& device, std::span<const KernelSample> samples,
                             KernelModel& model);

}  // namespace foretrace
