#pragma once
// What a fitted roofline leaves of measured rows, learnt.

#include <cstddef>
#include <span>

#include "absl/status/status.h"
#include "simulator/calibrate/kernel/kernel_fit.h"

namespace foretrace {

// Rows from which on a table is taken to show details.
inline constexpr size_t kDeepSamples = 2000;

// Adds to a model whose roofline is fitted: interpolation over shapes and boosted trees from 200
// rows on, measured shapes of GEMMs and attention; small trees over the sizes of a product from 15
// rows on. Fewer: nothing.
absl::Status FitResiduals(const GpuPeaks& device, std::span<const KernelSample> samples,
                          KernelModel& model);

}  // namespace foretrace
