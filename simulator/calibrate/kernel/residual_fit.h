#pragma once
// Trees on what rooflines of kernels, and interpolation over shapes, leave of measured times.

#include <span>

#include "absl/status/status.h"
#include "simulator/calibrate/kernel/kernel_fit.h"

namespace foretrace {

// From so many samples on a table holds GEMMs of all sizes, small ones too.
inline constexpr size_t kManySamples = 2000;

// d log(observed) / d log(kernel): how much a measurement says about the kernel itself.
double Sensitivity(const Measurement& measurement, double kernel_us, int64_t order);

// Whether y[m,n] = x W takes what y[n,m] does, in the mean over the pairs measured: to a library
// that reads both operands along k they are one GEMM but for how the result lies.
bool TurnsAlike(std::span<const KernelSample> samples);

// Trees on what the roofline leaves. Where shapes are interpolated there are two ensembles: one on
// what that leaves, with the shape left out, as it will be where it was not measured; and one that
// knows nothing of it. Errors of both differ, so that their mean can be better than either: the one
// or the other or the mean, as matrices held out say. Of tables of many GEMMs that TurnsAlike,
// trees learn each turned round too: of another matrix, which may not have been measured.
// `left_out`: what interpolation says of each sample without it; empty: there is none. Errors: what
// the training of trees says.
absl::Status FitResidual(const GpuPeaks& device, std::span<const KernelSample> samples,
                         std::span<const double> left_out, const ProgressSink& progress,
                         KernelModel& model);

}  // namespace foretrace
