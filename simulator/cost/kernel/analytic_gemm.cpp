#include "simulator/cost/kernel/analytic_gemm.h"

#include <algorithm>

#include "simulator/cost/kernel/convolution_roofline.h"
#include "simulator/cost/kernel/vector_rates.h"

namespace foretrace {
namespace {

// Three sets of constants, each from tables of some devices (importers in scripts/) and judged on
// others; figures are in calibration/README.md, "Without a calibration".

// Multiprocessors alone. Large tiles reach what a board keeps up, where its file says what that is:
// it is read off such GEMMs. Of the boost clock the V100 of PCIe reaches 1.0, that of SXM2 0.94
// (NeuSight, DeepBench). Intensity and step are those of the fits to NeuSight's A100 and V100
// (calibration/{a100,v100}-pcie*: 2.68 and 2.81, 0.207 and 0.223).
GemmParameters OnMultiprocessors(bool sustained) {
  GemmParameters p;
  p.compute_efficiency = sustained ? 1.0 : 0.97;
  p.tile_intensity = 2.75;
  p.reduction_step_us = 0.21;
  return p;
}

// Convolutions on multiprocessors, by Winograd's algorithms where filters allow: between the fits
// to NeuSight's A100, V100 and P100 (calibration/{a100-pcie-80gb,v100-pcie,p100-pcie}). Judged by
// DeepBench's V100 and P100.
GemmParameters Convolving() {
  GemmParameters p;
  p.compute_efficiency = 1.15;
  p.tile_intensity = 20;
  p.fused_efficiency = 0.9;
  p.staged_efficiency = 1.4;
  p.block_us = 2.4;
  p.algorithm_spread = 0.3;
  return p;
}

// mma.sync and before: the warps that start instructions also store results, in between a tile's
// pipeline fills and drains. Set by the A100 (aiconfigurator bf16, vidur fp16).
GemmParameters ByWarps() {
  GemmParameters p;
  p.base_us = 3.6;
  p.compute_efficiency = 0.95;
  p.tile_intensity = 11;
  p.bandwidth_efficiency = 0.78;
  p.overlap_power = 3;
  p.partial_wave = 0.8;
  p.wave_us = 1.9;
  p.choice_spread = 0.2;
  p.reduction_step_us = 0.035;
  return p;
}

// Volta and Turing: nothing is copied past the registers, so that a step's operands are waited for
// where a block has its multiprocessor to itself. The step is DeepBench's V100's (half precision).
GemmParameters ThroughRegisters() {
  GemmParameters p = ByWarps();
  p.reduction_step_us = 0.15;
  return p;
}

// wgmma and later: copies run beside (TMA), and persistent kernels store the results of one tile
// while they multiply the next ("CUTLASS 3.x: warp-specialised persistent kernels"), so that waves
// and steps cost a fraction. Set by the H100 (aiconfigurator bf16, vidur fp16).
GemmParameters ByWarpgroups() {
  GemmParameters p;
  p.base_us = 2.7;
  p.compute_efficiency = 0.95;
  p.tile_intensity = 14;
  p.bandwidth_efficiency = 0.83;
  p.overlap_power = 3;
  p.partial_wave = 0.6;
  p.wave_us = 0.3;
  p.choice_spread = 0.2;
  p.reduction_step_us = 0.0105;
  return p;
}

// Hopper's tensor cores know no scales: of every 128 of the reduction registers take the sums,
// multiply them by two scales and add them up, which one of two warpgroups does while the other
// multiplies; a tile's pipeline fills, and its results are stored, beside nothing else (DeepGEMM,
// TensorRT-LLM's fp8_blockscale_gemm). Set by the H100 (aiconfigurator fp8_block), whose tiles of
// 128 x 128 take 0.39 us for 128 of the reduction and 2 us beside, a block alone 0.134 us.
GemmParameters ByScaledBlocks() {
  GemmParameters p = ByWarpgroups();
  p.compute_efficiency = 0.78;
  p.tile_intensity = 6;
  p.wave_us = 2;
  p.partial_wave = 0;
  p.reduction_step_us = 0.0084;
  return p;
}

}  // namespace

GemmParameters AnalyticGemm(const GpuPeaks& device, Precision precision) {
  if (!device.has_tensor_cores(precision)) {
    return OnMultiprocessors(device.sustained_fp32_tflops > 0);
  }
  if (device.accelerator.instructions.by_warpgroups()) return ByWarpgroups();
  return CopiesPastRegisters(device) ? ByWarps() : ThroughRegisters();
}

double AnalyticGemmUs(const GpuPeaks& device, Precision precision, const KernelWork& work) {
  if (work.kind == KernelKind::kConvolution && !device.has_tensor_cores(precision)) {
    return ConvolutionRoofline(Convolving(), device, Precision::kFloat32, work).kernel_us;
  }
  const bool in_registers = work.block_scaled && precision == Precision::kFloat8 &&
                            device.fp8_tflops > 0 &&
                            !device.accelerator.instructions.asynchronous_matrices;
  const GemmParameters p = in_registers ? ByScaledBlocks() : AnalyticGemm(device, precision);
  // The constants are NVIDIA's: what AMD's kernels wait for before their first results.
  constexpr int64_t kTrips = 4;
  const double start_us = device.accelerator.vendor == "AMD" ? ColdStartUs(device, kTrips) : 0;
  const double us = GemmRoofline(p, device, precision, work).kernel_us + start_us;
  const double sustained = device.sustained_tflops(precision);
  if (!device.has_tensor_cores(precision) || sustained <= 0) return us;
  return std::max(us, p.base_us + work.flop.count() / (sustained * 1e6));
}

}  // namespace foretrace
