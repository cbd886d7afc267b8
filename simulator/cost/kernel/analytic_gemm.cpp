#include "simulator/cost/kernel/analytic_gemm.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "simulator/cost/kernel/maxwell_gemm.h"
#include "simulator/cost/kernel/roofline.h"
#include "simulator/cost/kernel/scaled_block_gemm.h"
#include "simulator/cost/kernel/vector_rates.h"

namespace foretrace {
namespace {

// Whose kernels libraries run: on multiprocessors those for Maxwell before Volta and those since;
// on tensor cores those whose operands pass through registers (Volta, Turing), whose instructions a
// warp issues (to Ada), and those of a warpgroup and later ones.
enum class GemmKernels : uint8_t {
  kMaxwell,
  kMultiprocessors,
  kThroughRegisters,
  kWarps,
  kWarpgroups
};

GemmKernels GemmKernelsOf(const GpuPeaks& device, Precision precision) {
  if (!device.has_tensor_cores(precision)) {
    return RunsMaxwellGemms(device) ? GemmKernels::kMaxwell : GemmKernels::kMultiprocessors;
  }
  if (device.accelerator.instructions.by_warpgroups()) return GemmKernels::kWarpgroups;
  return CopiesPastRegisters(device) ? GemmKernels::kWarps : GemmKernels::kThroughRegisters;
}

// Sets of constants, each from tables of some devices (importers in scripts/) and judged on
// others; figures are in calibration/README.md, "Without a calibration".

// Multiprocessors alone. Large tiles reach what a board keeps up, where its file says what that is:
// it is read off such GEMMs. Of the boost clock the V100 of PCIe reaches 1.0, that of SXM2 0.94
// (NeuSight, DeepBench). Intensity and step are those of the fits to NeuSight's A100 and V100
// (calibration/{a100,v100}-pcie*: 2.68 and 2.81, 0.207 and 0.223). The threads that multiply also
// wait for what they load (gemm_block.cpp, kOverlapOfLanes). What a wave takes beside is of the
// H100's batches (kernels.csv.xz, half of the shapes), base_us ByWarpgroups'.
GemmParameters OnMultiprocessors(bool sustained) {
  GemmParameters p;
  p.base_us = 2.7;
  p.compute_efficiency = sustained ? 1.0 : 0.97;
  p.tile_intensity = 2.75;
  p.overlap_power = 2;
  p.wave_us = 1;
  p.reduction_step_us = 0.21;
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
// Beside a shared memory as fast as the A100's, 128 bytes a cycle, their multiprocessors multiply
// half as much, 512 products a cycle for 1,024 ("NVIDIA A100 Tensor Core GPU Architecture", 2020),
// so that a tile's operands weigh half. The threads that multiply wait for those loads, as on
// multiprocessors alone.
GemmParameters ThroughRegisters() {
  GemmParameters p = ByWarps();
  p.tile_intensity /= 2;
  p.overlap_power = OnMultiprocessors(false).overlap_power;
  p.reduction_step_us = 0.15;
  return p;
}

// wgmma and later: copies run beside (TMA), and persistent kernels store the results of one tile
// while they multiply the next ("CUTLASS 3.x: warp-specialised persistent kernels"), so that waves
// and steps cost a fraction. Set by the H100 (aiconfigurator bf16, vidur fp16). An instruction has
// 64 rows and columns in eights (PTX ISA, wgmma.m64n8k16), of either operand ("nvjet_tst_64x8_...",
// "..._64x16_..."): an H20, which has little arithmetic for its bandwidth, is bound by the latter.
GemmParameters ByWarpgroups() {
  GemmParameters p;
  p.narrowest_tile = 8;
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

// TF32 on those: cuBLAS has no persistent kernels of its own for it (nvjet) but xmma's of one
// group of warps a tile (bert-base-b4-tf32, H100, traces/README.md, "Captured"), and wgmma takes
// its operands along the reduction alone (PTX ISA, "Asynchronous warpgroup-level matrix
// instructions"), so that others pass through registers. Set by half of the shapes of
// calibration/h100-sxm5-nvswitch/measurements/kernels.csv.xz, as OnMultiprocessors' wave.
GemmParameters ByWarpgroupsInTf32(const KernelWork& work) {
  constexpr double kThroughRegisters = 0.7;
  GemmParameters p = ByWarpgroups();
  p.narrowest_tile = 0;
  p.base_us = 3.2;
  p.reduction_step_us *= 2;
  if (work.across_reduction > 0) p.compute_efficiency *= kThroughRegisters;
  return p;
}

// Copies by descriptors (TMA) take rows of whole loads of 16 bytes (CUDA driver API,
// cuTensorMapEncodeTiled): of others cuBLAS has its kernels for Ampere
// ("cutlass_80_tensorop_s1688gemm_256x128_32x3_tn_align1", the same recording).
GemmParameters ByWarpsOn(const GpuPeaks& device, double base_us) {
  GemmParameters p = ByWarps();
  p.base_us = base_us;
  p.compute_efficiency *= device.accelerator.instructions.warp_gemms;
  return p;
}

// Batches in float32 without tensor cores have one kernel each: "ampere_sgemm_128x128_nn" on the
// A100 and "maxwell_sgemm_128x64_nn" on the P100 run every one of NeuSight's (PyTorch 2.1, cuBLAS
// 12.1; names are column-major), however little of a tile is filled. Volta's differ, and Hopper's.
// Rows and columns; 0: any of several.
std::pair<double, double> BatchesTile(const GpuPeaks& device) {
  if (device.accelerator.vendor != "NVIDIA") return {0, 0};
  if (CopiesPastRegisters(device) && !device.accelerator.instructions.by_warpgroups()) {
    return {128, 128};
  }
  if (RunsMaxwellGemms(device)) return {64, 128};
  return {0, 0};
}

// Hopper's tensor cores know no scales.
bool ScalesInRegisters(const GpuPeaks& device, Precision precision, const KernelWork& work) {
  const InstructionFacts& facts = device.accelerator.instructions;
  return work.block_scaled && precision == Precision::kFloat8 && device.fp8_tflops > 0 &&
         facts.by_warpgroups() && !facts.asynchronous_matrices;
}

GemmParameters Chosen(const GpuPeaks& device, Precision precision, const KernelWork& work) {
  constexpr int64_t kLoadBytes = 16;
  const InstructionFacts& facts = device.accelerator.instructions;
  GemmParameters p = AnalyticGemm(device, precision);
  if (precision == Precision::kFloat32 && work.kind == KernelKind::kBatchedGemm) {
    std::tie(p.tile_rows, p.tile_cols) = BatchesTile(device);
  }
  if (!device.has_tensor_cores(precision) || !facts.by_warpgroups()) return p;
  if (precision == Precision::kTensorFloat32) p = ByWarpgroupsInTf32(work);
  return AccessBytes(work) < kLoadBytes ? ByWarpsOn(device, p.base_us) : p;
}

}  // namespace

bool SameGemmKernels(const GpuPeaks& a, const GpuPeaks& b, Precision precision, KernelKind kind) {
  if (a.accelerator.vendor != b.accelerator.vendor ||
      GemmKernelsOf(a, precision) != GemmKernelsOf(b, precision)) {
    return false;
  }
  const bool batches = kind == KernelKind::kBatchedGemm && precision == Precision::kFloat32;
  return !batches || BatchesTile(a) == BatchesTile(b);
}

GemmParameters AnalyticGemm(const GpuPeaks& device, Precision precision) {
  switch (GemmKernelsOf(device, precision)) {
    case GemmKernels::kMaxwell:
    case GemmKernels::kMultiprocessors:
      return OnMultiprocessors(device.sustained_fp32_tflops > 0);
    case GemmKernels::kThroughRegisters:
      return ThroughRegisters();
    case GemmKernels::kWarps:
      return ByWarps();
    case GemmKernels::kWarpgroups: {
      GemmParameters p = ByWarpgroups();
      if (precision == Precision::kTensorFloat32) p.narrowest_tile = 0;
      return p;
    }
  }
  return {};
}

double AnalyticGemmUs(const GpuPeaks& device, Precision precision, const KernelWork& work) {
  const GemmParameters p = Chosen(device, precision, work);
  if (ScalesInRegisters(device, precision, work)) {
    return ScaledBlockGemmUs(device, p.bandwidth_efficiency, work);
  }
  if (RunsMaxwellGemms(device) && work.kind == KernelKind::kGemm)
    return MaxwellGemmUs(p, device, work);
  // The constants are NVIDIA's: what AMD's kernels wait for before their first results.
  constexpr int64_t kTrips = 4;
  const double start_us = device.accelerator.vendor == "AMD" ? ColdStartUs(device, kTrips) : 0;
  const double us = GemmRoofline(p, device, precision, work).kernel_us + start_us;
  const double sustained = device.sustained_tflops(precision);
  if (!device.has_tensor_cores(precision) || sustained <= 0) return us;
  return std::max(us, p.base_us + work.flop.count() / (sustained * 1e6));
}

}  // namespace foretrace
