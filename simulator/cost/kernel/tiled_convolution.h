#pragma once
// Convolutions on tensor cores whose kernel names its tile, and what moves their operands between
// the framework's layout and theirs.

#include <cstdint>

#include "simulator/cost/kernel/gpu_peaks.h"
#include "simulator/cost/kernel/roofline.h"
#include "simulator/cost/operator/kernel_work.h"

namespace foretrace {

// An implicit GEMM over images and filters with their channels innermost (CUTLASS,
// media/docs/implicit_gemm_convolution.md): a step of the reduction takes one position of the
// filter and as many channels as the tile is deep, so that fewer channels than that leave the rest
// of the step empty. Nothing splits the reduction. `work` has a tile.
double TiledConvolutionUs(const GemmParameters& parameters, const GpuPeaks& device,
                          Precision precision, const KernelWork& work);

// A transform between images of innermost columns and of innermost channels: blocks of 32 pixels by
// 32 channels through shared memory, present or not. `waves`: of blocks that the device holds at
// once.
double LayoutTransformUs(const GpuPeaks& device, double waves);

}  // namespace foretrace
