#pragma once
// Fits kernel models to measured rows.

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/progress.h"
#include "simulator/cost/kernel/kernel_model.h"

namespace foretrace {

struct KernelSample {
  KernelWork work;
  double time_us = 0;  // as measured
  int64_t order = 0;   // new shapes that the benchmark had run before, where that is known
};

struct KernelFitOptions {
  // The times contain launch and measurement, to be fitted apart; the shortest kernel is then taken
  // as 2 us, since a constant cannot be told from overhead.
  bool has_overhead = false;
  bool with_residual = true;
  uint64_t seed = 1;
  // DRAM efficiency of the device's streaming kernels. Row-wise kernels stream from the same
  // memory, so theirs is fitted near it: they rarely reach it within the sizes measured. 0:
  // unknown.
  double stream_efficiency = 0;
  ProgressSink progress = {};  // told within a fit
};

// Roofline by robust least squares on log time (soft L1), then a residual of boosted trees on what
// is left, clipped to the spread seen in training. `samples` all have the same key. Errors: fewer
// than 5 samples, or what the solver says. Residuals need 200 samples; of GEMMs, 15 suffice for
// steps along their sizes.
absl::StatusOr<KernelModel> FitKernelModel(const GpuPeaks& device, const KernelKey& key,
                                           std::span<const KernelSample> samples,
                                           const KernelFitOptions& options);

}  // namespace foretrace
