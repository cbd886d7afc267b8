#pragma once
// Physical models of kernel time on a device, without learnt parts. Times are in microseconds of
// the kernel alone: no launch, no measurement.

#include <cstdint>

#include "simulator/cost/kernel/gpu_peaks.h"
#include "simulator/cost/operator/kernel_work.h"

namespace foretrace {

// GEMM-like kernels: four parameters over the best of a few output tiles.
struct GemmParameters {
  double base_us = 2;                // the shortest kernel
  double compute_efficiency = 0.85;  // share of the peak that an infinitely large tile reaches
  // Tiles of a x b reach intensity / (intensity + tile_intensity) of that, intensity = ab / (a+b):
  // small tiles load more for each FLOP.
  double tile_intensity = 8;
  double bandwidth_efficiency = 0.8;  // share of the DRAM peak
  // How compute and memory time add up: (compute^q + memory^q)^(1/q).
  double overlap_power = 4;
  // A last wave of tiles that fills a share of the device takes 1 - partial_wave of a full wave
  // and that share of the rest: its tiles have the caches, the power and their partners' half of an
  // SM to themselves. 0: as long as a full wave.
  double partial_wave = 0;
  // Filling and draining the pipeline of a tile of 128 x 128, in each wave; larger tiles more.
  double wave_us = 0;
  // Libraries choose among tiles by rules, not by trial: times are averaged over tiles in log,
  // weighted by (best / time)^(1 / choice_spread). 0: the best.
  double choice_spread = 0;
  // The one tile that the library has, of so many rows m and columns n; 0: any of several.
  double tile_rows = 0, tile_cols = 0;
  // Of GEMMs with fewer than 32 rows or columns libraries have tiles whose narrow side is the least
  // multiple of this that holds them; 0: none narrower than 32.
  double narrowest_tile = 0;
  // A block takes at least this long for a step along the reduction, however small its tile: loads
  // from memory and barriers that nothing hides where the device holds few blocks. Of 8 elements in
  // fp32 without tensor cores, else of 16 bytes.
  double reduction_step_us = 0;
  // Convolutions only (convolution_roofline.h): share of the peak that the fused and the staged
  // Winograd algorithms reach on the multiplications that they are left with. 0: not used.
  double fused_efficiency = 0;
  double staged_efficiency = 0;
  // Filling and draining the pipeline of a block of cuDNN's, 128 x 128 results, in each wave.
  double block_us = 0;
  // As choice_spread, among the algorithms. 0: the best.
  double algorithm_spread = 0;
};

struct GemmTime {
  double compute_us = 0, memory_us = 0;
  double kernel_us = 0;  // base + (compute^q + memory^q)^(1/q)
  int tile = 0;          // index of the tile that was best
  int split = 1;         // parts of the reduction that run side by side
  double waves = 0;      // blocks for each SM
};

// Of the peak on tensor cores that a kernel's instructions can reach: less than 1 where a warp
// issues them on a device whose peak takes those of a warpgroup.
double WarpInstructionShare(const GpuPeaks& device, const KernelWork& work);

// Whether operands go from memory to shared memory without passing through registers (cp.async):
// since Ampere, whose tensor cores are also the first with TF32.
bool CopiesPastRegisters(const GpuPeaks& device);

// Bytes of the operands and results of a GEMM on tensor cores that lie side by side, of at most 16,
// the widest access of a thread.
int64_t AccessBytes(const KernelWork& work);

// `work` has a matrix view (GEMM, batched GEMM, convolution). GEMMs with a vector in fp32 have
// no tiles to fill. Tensor cores wait for operands and results that are not aligned to 16 bytes.
GemmTime GemmRoofline(const GemmParameters& parameters, const GpuPeaks& device, Precision precision,
                      const KernelWork& work);

// Kernels bound by memory. Streaming ones (element-wise, copies) have only the first two; row-wise
// ones (layer norm, softmax) walk each row several times with one thread block.
struct MemoryParameters {
  double base_us = 2;
  double bandwidth_efficiency = 0.85;
  // Row-wise: later passes over a row miss L2 when the rows in flight outgrow `l2_share` of it.
  double l2_share = 1.28;
  // A block lives at least row_us + step_us * (loop iterations of its threads).
  double row_us = 0, step_us = 0;
  double fill_rows = 0;  // block lifetimes spent filling and draining the device
};

// How a row-wise kernel maps rows to blocks.
struct RowGeometry {
  double threads = 128;  // of a block
  double rows_per_block = 1;
  double steps = 1;           // loop iterations of a thread over a row
  double waves = 0;           // blocks over what the device holds at once
  double resident_bytes = 0;  // rows in flight
};
RowGeometry GeometryOf(const GpuPeaks& device, const KernelWork& work);

struct MemoryTime {
  double kernel_us = 0;
  double memory_us = 0;
  RowGeometry geometry;  // row-wise kernels only
};
MemoryTime MemoryRoofline(const MemoryParameters& parameters, const GpuPeaks& device,
                          const KernelWork& work);

// Whether a warp keeps a row of a softmax in its registers (PyTorch's softmax_warp_forward, to
// 1,024 columns), so that later passes read nothing again.
bool KeepsRowsInRegisters(const KernelWork& work);

// Whether the kernel walks rows as GeometryOf describes.
bool IsRowWise(const KernelWork& work);

// What a benchmark reports for a kernel: launch and measurement add `overhead_us`, and nothing
// shows below `floor_us`. Some benchmarks slow down as they go: a call of cuDNN costs the host more
// with each new shape that the process has run. After `order` such calls, in thousands x, that adds
// drift_us x + drift_growth_us x^2. Predictions of kernel time leave all of it out.
struct Measurement {
  double floor_us = 0, overhead_us = 0;
  double drift_us = 0, drift_growth_us = 0;
  double Observed(double kernel_us, int64_t order = 0) const;
};

// Plain GEMMs, one or many.
bool IsGemm(KernelKind kind);

// (a^power + b^power)^(1/power); arguments at least 0.
double SmoothSum(double a, double b, double power);
// (a^8 + b^8)^(1/8), a maximum with a rounded corner; arguments at least 0.
double SmoothMax(double a, double b);

}  // namespace foretrace
