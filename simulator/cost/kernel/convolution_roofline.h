#pragma once
// Convolutions as the algorithms of cuDNN: implicit GEMM, and for 3x3 filters of stride 1
// Winograd's minimal filtering in two forms (Lavin and Gray, "Fast Algorithms for Convolutional
// Neural Networks", 2015).

#include <array>

#include "simulator/cost/kernel/roofline.h"

namespace foretrace {

enum class ConvolutionAlgorithm { kImplicitGemm, kFused, kStaged, kCount };

struct ConvolutionTime {
  double kernel_us = 0;  // of the fastest, with the base
  // By algorithm, without the base; 0 where it cannot be used.
  std::array<double, 3> algorithm_us = {};
  GemmTime implicit_gemm;
  // Output tiles of 2x2 and 4x4 over all images, and the share of them inside the image.
  double small_tiles = 0, large_tiles = 0;
  double small_share = 0, large_share = 0;
};

// Whether Winograd's algorithms are open to it: 3x3 filters, stride 1, no groups.
bool IsWinograd(const KernelWork& work);

// Fused: F(2x2, 3x3), 16 multiplications for 4 results in one kernel whose blocks take 32 tiles by
// 32 filters. Staged: F(4x4, 3x3), 36 for 16, as transforms of inputs and filters, 36 batched GEMMs
// and a transform of the results, each through memory. The gradient of the weights has the staged
// form alone, F(3x3, 4x4): tiles of the results' gradient stand where the filters do, and the GEMMs
// sum over tiles. Images are taken as square.
ConvolutionTime ConvolutionRoofline(const GemmParameters& parameters, const GpuPeaks& device,
                                    Precision precision, const KernelWork& work);

}  // namespace foretrace
