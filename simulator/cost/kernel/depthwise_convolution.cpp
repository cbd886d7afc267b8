#include "simulator/cost/kernel/depthwise_convolution.h"

#include <algorithm>
#include <cmath>

#include "simulator/cost/kernel/convolution_sizes.h"
#include "simulator/cost/kernel/vector_rates.h"

namespace foretrace {
namespace {

// Constants are the H100's (kernels.csv.xz, half of the shapes: analytic_convolution.cpp).
//
// aten/src/ATen/native/cuda/DepthwiseConv2d.cu: a thread takes one element, whose index three
// divisions take apart, then for each position of the filter an address, tests of it and two loads;
// for gradients of the input also divisions by the stride. Instructions, as of integers.
constexpr double kOfElement = 90, kOfPosition = 7.3, kOfGradientPosition = 22.5;
// Gradients of the filters: a block for each of their elements, whose warps go through an image
// each, pixel by pixel.
constexpr double kOfProduct = 24, kProductCycles = 280, kBlockCycles = 670;
constexpr double kWarps = 8, kWarp = 32;

double FiltersGradientUs(const GpuPeaks& device, const ConvolutionSizes& s) {
  const double blocks = s.groups * s.filters * s.positions;
  const double steps =
      std::ceil(s.images / std::min(s.images, kWarps)) * std::ceil(s.out_pixels / kWarp);
  const double waves = std::ceil(blocks / device.sms / device.resident_blocks(kWarps * kWarp));
  const double waits = waves * (kBlockCycles + steps * kProductCycles);
  return std::max(InstructionUs(device, blocks * s.images * s.out_pixels * kOfProduct),
                  waits / VectorRatesOf(device).cycles_per_us);
}

}  // namespace

bool IsDepthwise(const KernelWork& work) {
  return work.kind == KernelKind::kConvolution && work.batch > 1 && work.batch == work.channels;
}

double DepthwiseConvolutionUs(const GpuPeaks& device, double bandwidth_efficiency,
                              const KernelWork& work) {
  constexpr int64_t kTrips = 4;
  const ConvolutionSizes s = ConvolutionSizesOf(work);
  const double memory_us =
      static_cast<double>(work.total_bytes()) / (device.dram_gbps * 1e3 * bandwidth_efficiency);
  const bool forward = work.pass == Direction::kForward;
  const double of_positions =
      s.positions * (forward ? kOfPosition : kOfGradientPosition * s.filters);
  const double busy_us =
      work.weight_gradient
          ? FiltersGradientUs(device, s)
          : InstructionUs(device, (forward ? s.out() : s.in()) * (kOfElement + of_positions));
  return ColdStartUs(device, kTrips) + std::max(busy_us, memory_us);
}

}  // namespace foretrace
