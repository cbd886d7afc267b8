#pragma once
// Convolutions on multiprocessors without tensor cores, by the blocks that their kernels name.

#include <cstdint>

#include "simulator/cost/kernel/gemm_block.h"
#include "simulator/cost/kernel/gpu_peaks.h"

namespace foretrace {

// Products of matrices as xmma's kernels for Ampere take them.
struct SimtGemms {
  GemmBlock block;
  double batch = 1, m = 1, n = 1, k = 1;
  bool complex = false;
  bool channels_last = false;  // operands are loaded by 16 bytes, not one by one
};
double SimtGemmsUs(const GpuPeaks& device, const SimtGemms& gemms);

// What cuDNN's own kernels see of a convolution.
struct EngineShape {
  double images = 1, channels = 1, filters = 1, taps = 1;  // taps: positions of a filter
  double pixels = 1;                                       // of a result
};
// dgrad_engine: a block for each position of the filter, which adds to what the others left.
double InputGradientEngineUs(const GpuPeaks& device, const GemmBlock& block,
                             const EngineShape& shape);
// wgrad_alg0_engine: the reduction over images and pixels is split among blocks.
double WeightGradientEngineUs(const GpuPeaks& device, const GemmBlock& block,
                              const EngineShape& shape);
// implicit_convolve_sgemm, explicit_convolve_sgemm.
double ForwardEngineUs(const GpuPeaks& device, const GemmBlock& block, const EngineShape& shape);

}  // namespace foretrace
