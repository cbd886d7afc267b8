#pragma once
// Whether times of measured kernels can be microseconds of their device.

#include <span>

#include "absl/status/status.h"
#include "simulator/calibrate/csv_table.h"
#include "simulator/cost/kernel/gpu_peaks.h"

namespace foretrace {

// Errors name the row: a GEMM that is faster than the device's fastest arithmetic allows, and GEMMs
// of which every large one is hundreds of times as long as its work takes.
// Times a thousandfold off look like that, and so do rows of another device.
absl::Status CheckKernelTimes(const GpuPeaks& device, std::span<const BenchmarkRow> rows);

}  // namespace foretrace
