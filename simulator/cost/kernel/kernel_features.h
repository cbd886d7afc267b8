#pragma once
// What the roofline says of a kernel, and what a learnt residual of it may look at.

#include <array>

#include "simulator/cost/kernel/gpu_peaks.h"
#include "simulator/cost/kernel/roofline.h"
#include "simulator/cost/operator/kernel_work.h"

namespace foretrace {

// A feature vector always holds this many values; models use the first FeatureCount of them.
inline constexpr int kMaxKernelFeatures = 61;
using KernelFeatures = std::array<float, kMaxKernelFeatures>;

struct KernelPoint {
  double kernel_us = 0;
  KernelFeatures features = {};
};

// GEMM-like kernels, convolutions included; and those bound by memory.
KernelPoint GemmPoint(const GemmParameters& parameters, const GpuPeaks& device, Precision precision,
                      const KernelWork& work);
KernelPoint MemoryPoint(const MemoryParameters& parameters, const GpuPeaks& device,
                        const KernelWork& work);

// Heads of keys of all sequences, for attention: those that heads of queries share count once.
double KeyHeads(const KernelWork& work);

int GemmFeatureCount(KernelKind kind);
// Of GEMMs whose shapes are interpolated, after those of GemmFeatureCount: what interpolation
// says (log of time), then how each tile fills the multiprocessors, how far each splits the
// reduction, and how operands fill L2.
inline constexpr int kInterpolatedFeatureCount = 39;
void AddInterpolatedFeatures(const GpuPeaks& device, const KernelWork& work, double log_residual,
                             KernelPoint& point);
inline constexpr int kMemoryFeatureCount = 7;

}  // namespace foretrace
