#pragma once
// Convolutions as the algorithms of cuDNN: implicit GEMM, and for 3x3 filters of stride 1
// Winograd's minimal filtering in two forms (Lavin and Gray, "Fast Algorithms for Convolutional
// Neural Networks", 2015).

#include <array>

#include "simulator/cost/kernel/roofline.h"

namespace foretrace {

enum class ConvolutionAlgorithm { kImplicitGemm, kFused, kStaged, kCount };

struct ConvolutionTime {
  double kernel_us = 0;  // as chosen among the algorithms, with the base
  // By algorithm, without the base; 0 where it cannot be used.
  std::array<double, 3> algorithm_us = {};
  double memory_us = 0;                    // operands and results once through DRAM
  std::array<double, 3> implicit_us = {};  // tiles of 128 x 128, 64 and 32; fp32 only
  double fused_blocks = 0;
  // Rows of each of the staged GEMMs: output tiles of 4x4, images counted in sixteens.
  double staged_rows = 0;
  double fused_share = 0, staged_share = 0;  // of the tiles' results, those that are kept
};

// Whether Winograd's algorithms are open to it: 3x3 filters, stride 1, no groups.
bool IsWinograd(const KernelWork& work);

// Launch shapes are those of cuDNN 8.9, whose kernels profilers name with their grids (NeuSight's
// tables do for each of 14,697 convolutions, all of which agree).
// Implicit GEMM (scudnn_128x128, 128x64, 128x32): the best of the three; other precisions choose
// among the tiles of GemmRoofline.
// Fused (scudnn_winograd_128x128 tile148 and others): F(2x2, 3x3), 16 multiplications for 4 results
// in one kernel. A block takes 32 filters and 32 tiles, arranged as 1 image by 4 by 8 tiles or as
// other GEMMs of 32 that the architecture has: what of it lies beyond the image is wasted.
// Staged (winograd_nonfused): F(4x4, 3x3), 36 for 16, as transforms of inputs and filters, 36
// GEMMs and a transform of the results, each through memory; images are padded to a multiple of 16.
// The gradient of the weights has the staged form alone, F(3x3, 4x4): tiles of the results'
// gradient stand where the filters do, and the GEMMs sum over tiles. Images are taken as square.
ConvolutionTime ConvolutionRoofline(const GemmParameters& parameters, const GpuPeaks& device,
                                    Precision precision, const KernelWork& work);

}  // namespace foretrace
