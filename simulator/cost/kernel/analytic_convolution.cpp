#include "simulator/cost/kernel/analytic_convolution.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "simulator/cost/kernel/analytic_gemm.h"
#include "simulator/cost/kernel/convolution_names.h"
#include "simulator/cost/kernel/convolution_roofline.h"
#include "simulator/cost/kernel/convolution_sizes.h"
#include "simulator/cost/kernel/depthwise_convolution.h"
#include "simulator/cost/kernel/maxwell_gemm.h"
#include "simulator/cost/kernel/roofline.h"
#include "simulator/cost/kernel/simt_convolution.h"
#include "simulator/cost/kernel/sizes.h"
#include "simulator/cost/kernel/tiled_convolution.h"
#include "simulator/cost/kernel/vector_rates.h"

namespace foretrace {
namespace {

// Constants that no source states are the H100's, of the shapes of calibration/h100-sxm5-nvswitch/
// measurements/kernels.csv.xz whose text has an even CRC-32; the other half of them and DeepBench's
// V100 judge (calibration/README.md, "Without a calibration").

constexpr double kLoadBytes = 16;
// A step of the reduction takes one position of the filter and as many channels as fill the 128
// bytes of a row of shared memory (CUTLASS, media/docs/implicit_gemm_convolution.md), half of that
// in kernels for Ampere.
constexpr double kStepBytes = 128, kStepBytesByWarps = 64;
constexpr double kNarrowestTile = 64;
// Addresses of pixels are worked out, and what lies beyond the image is tested for, beside the
// products where GEMMs' copies need neither: of their rate, and cycles of an element of the
// reduction.
constexpr double kReached = 0.75, kStepCycles = 4.8;
// Gradients of filters in TF32: neither operand lies along the reduction (tiled_convolution.cpp).
constexpr double kTransposedTf32 = 0.5;
// Of pixels of all images: the sum from which on cuDNN 9 has its older kernel take gradients of
// filters in float32 (resnet50-b16-fp32, H100: between 3,136 and 12,544).
constexpr double kLongSum = 8000;

// Winograd's algorithms among others, where filters allow: between the fits to NeuSight's A100,
// V100 and P100 (calibration/{a100-pcie-80gb,v100-pcie,p100-pcie}), of which the P100, whose
// kernels are Maxwell's, has less. Judged by DeepBench's V100 and P100.
GemmParameters Convolving(const GpuPeaks& device) {
  const double reached = RunsMaxwellGemms(device) ? 0.9 : 1;
  GemmParameters p;
  p.compute_efficiency = 1.15 * reached;
  p.tile_intensity = 20;
  p.fused_efficiency = 0.9 * reached;
  p.staged_efficiency = 1.4 * reached;
  p.block_us = 2.4;
  p.algorithm_spread = 0.3;
  return p;
}

double Whole(double x, double of) { return std::ceil(x / of) * of; }

int64_t Count(double x) { return std::max<int64_t>(std::llround(std::min(x, 1e18)), 1); }

// Operands and results between the layouts, and padded to channels of whole loads.
double AroundUs(const GpuPeaks& device, const KernelWork& work, const ConvolutionSizes& s) {
  const int operands = s.positions > 1 ? 2 : 1;  // filters of one position lie alike in both
  // Kernels for Volta and Turing store results where the framework wants them ("volta_fp16_
  // s884cudnn_fp16_256x64_ldg8_relu_f2f_exp_small_nhwc2nchw_tn_v1" beside two nchwToNhwcKernel for
  // each: tensorflow/tensorflow issue 15897), but for filters' gradients ("..._wgrad_idx_exp_
  // interior_nhwc_nt_v1": apache/mxnet issue 17665).
  const bool stored = !CopiesPastRegisters(device) && !work.weight_gradient;
  const double bytes = static_cast<double>(stored ? work.read.count() : work.total_bytes());
  double us = LayoutTransformsUs(device, stored ? operands : operands + 1, bytes);
  if (s.positions <= 1) return us;
  const double load = kLoadBytes / s.element_bytes;
  const auto pad = [&](double channels, double elements) {
    const double padded = Whole(channels, load);
    if (padded > channels) us += PaddedImagesUs(device, elements / channels * padded);
  };
  pad(s.channels, s.in());
  pad(s.filters, s.out());
  return us;
}

// Gradients of filters sum over all pixels: in as many parts as fill `blocks` with tiles of `side`,
// each at least 256 long.
void DivideSum(double blocks, double side, KernelWork& tiles) {
  constexpr double kLeast = 256;
  const double area = std::ceil(Positive(tiles.m) / side) * std::ceil(Positive(tiles.n) / side) *
                      Positive(tiles.batch);
  const double parts = std::floor(std::min(blocks / area, Positive(tiles.k) / kLeast));
  if (parts < 2) return;
  tiles.k = Count(std::ceil(Positive(tiles.k) / parts));
  tiles.batch = Count(Positive(tiles.batch) * parts);
}

double TensorConvolutionUs(const GpuPeaks& device, Precision precision, const KernelWork& work) {
  constexpr double kPartsOfRoofline = 16;  // that it divides a reduction into at most
  const InstructionFacts& facts = device.accelerator.instructions;
  const ConvolutionSizes s = ConvolutionSizesOf(work);
  const double load = kLoadBytes / s.element_bytes;
  GemmParameters p = AnalyticGemm(device, precision);
  if (precision == Precision::kTensorFloat32 && work.weight_gradient && facts.by_warpgroups()) {
    p.compute_efficiency *= kTransposedTf32;
  }
  KernelWork tiles = work;
  if (work.weight_gradient) DivideSum(device.sms / kPartsOfRoofline, kNarrowestTile, tiles);
  const bool as_it_lies =
      s.positions <= 1 && work.stride <= 1 && s.groups <= 1 && std::fmod(s.in_pixels, load) == 0;
  if (as_it_lies) {
    tiles.across_reduction = work.weight_gradient ? 0 : 1;
    return AnalyticGemmUs(device, precision, tiles);
  }
  tiles.n = Count(Whole(Positive(work.n), kNarrowestTile));
  tiles.m = Count(Whole(Positive(work.m), kNarrowestTile));
  // Descriptors of copies state strides in whole loads (CUDA driver API, cuTensorMapEncodeTiled):
  // other images go by kernels for Ampere.
  const bool by_warps =
      !facts.by_warpgroups() || std::fmod(s.channels, load) != 0 || std::fmod(s.filters, load) != 0;
  if (by_warps) p.compute_efficiency *= facts.warp_gemms;
  if (!work.weight_gradient) {
    const double of = work.pass == Direction::kForward ? s.channels : s.filters;
    const double step = (by_warps ? kStepBytesByWarps : kStepBytes) / s.element_bytes;
    tiles.k = Count(Positive(work.k) / of * Whole(of, step));
  }
  if (CopiesPastRegisters(device)) {
    p.compute_efficiency *= kReached;
    p.reduction_step_us += kStepCycles * load / VectorRatesOf(device).cycles_per_us;
  }
  return AroundUs(device, work, s) + GemmRoofline(p, device, precision, tiles).kernel_us;
}

// The best of the tiles of cuDNN's kernels for Ampere that resnet50-b16-fp32 names (H100,
// traces/README.md, "Captured"), whose constants simt_convolution.cpp has.
double BlocksUs(const GpuPeaks& device, const KernelWork& work, bool channels_last) {
  constexpr int64_t kDepth = 8, kStages = 3;
  double best = HUGE_VAL;
  for (const auto& [rows, cols, warps] :
       {std::array<int64_t, 3>{256, 64, 4}, {128, 32, 4}, {32, 32, 2}}) {
    SimtGemms gemms{{rows, cols, kDepth, kStages, warps},
                    Positive(work.batch),
                    Positive(work.m),
                    Positive(work.n),
                    Positive(work.k)};
    gemms.channels_last = channels_last;
    best = std::min(best, SimtGemmsUs(device, gemms));
  }
  return best;
}

// Images as they lie, but for gradients of filters with few pixels to sum.
double SimtConvolutionUs(const GpuPeaks& device, const KernelWork& work) {
  constexpr double kSmallestTile = 32, kBlocks = 8;  // of a multiprocessor
  const ConvolutionSizes s = ConvolutionSizesOf(work);
  const double memory_us = static_cast<double>(work.total_bytes()) /
                           (device.dram_gbps * 1e3 * GemmParameters().bandwidth_efficiency);
  if (!work.weight_gradient) return BlocksUs(device, work, false) + memory_us;
  if (Positive(work.k) >= kLongSum) {
    constexpr std::string_view kEngine = "wgrad_alg0_engine<float, 128, 5, 5, 3, 3, 3, false, 512>";
    const EngineShape shape{s.images * s.groups, s.channels, s.filters, s.positions, s.out_pixels};
    return WeightGradientEngineUs(device, ConvolutionKernelOf(kEngine).block, shape);
  }
  KernelWork tiles = work;
  DivideSum(device.sms * kBlocks, kSmallestTile, tiles);
  return AroundUs(device, work, s) + BlocksUs(device, tiles, true);
}

}  // namespace

double AnalyticConvolutionUs(const GpuPeaks& device, Precision precision, const KernelWork& work) {
  if (IsDepthwise(work)) {
    return DepthwiseConvolutionUs(device, GemmParameters().bandwidth_efficiency, work);
  }
  if (device.has_tensor_cores(precision)) return TensorConvolutionUs(device, precision, work);
  const bool winograd = work.weight_gradient && IsWinograd(work);
  if (device.accelerator.instructions.by_warpgroups() && !winograd) {
    return SimtConvolutionUs(device, work);
  }
  return ConvolutionRoofline(Convolving(device), device, Precision::kFloat32, work).kernel_us;
}

}  // namespace foretrace
