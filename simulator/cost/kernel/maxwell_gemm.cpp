#include "simulator/cost/kernel/maxwell_gemm.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "simulator/cost/kernel/gemm_block.h"
#include "simulator/cost/kernel/sizes.h"

namespace foretrace {
namespace {

struct MaxwellKernel {
  double rows, cols;  // of y[m,n]; names are column-major, so that these say "<cols>x<rows>"
  double threads;
};
constexpr MaxwellKernel kNarrowKernel = {128, 32, 256}, kSquareKernel = {64, 64, 64},
                        kFlatKernel = {32, 128, 256};

// Threads have as many other instructions as those of Hopper's kernels for multiprocessors; before
// Volta a scheduler starts two instructions of a warp in a cycle, the one beside the product
// (CUDA C++ programming guide 8.0, "Compute capability 5.x"), so that these overlap.
double MaxwellReached(const MaxwellKernel& kernel) {
  constexpr double kOverlap = 2;
  const double results = kernel.rows * kernel.cols / kernel.threads;
  return 1 / SmoothSum(1, kOtherInstructions / std::sqrt(results), kOverlap);
}

double MaxwellKernelUs(GemmParameters p, const GpuPeaks& device, const KernelWork& work,
                       const MaxwellKernel& kernel) {
  p.tile_rows = kernel.rows;
  p.tile_cols = kernel.cols;
  p.tile_intensity = 0;
  p.compute_efficiency *= MaxwellReached(kernel);
  return GemmRoofline(p, device, Precision::kFloat32, work).kernel_us;
}

// Linear layers with a bias go through cublasLt, which adds it (PyTorch, at::addmm,
// gemm_and_bias). Its kernels there are three, and many blocks go to the narrow one, whose threads
// have 4 x 4 results: kernel names of NeuSight's training rows, five of six of those with more
// blocks of 64 x 64 than 16 a multiprocessor.
double WithBiasUs(const GemmParameters& p, const GpuPeaks& device, const KernelWork& work) {
  constexpr double kFewBlocks = 16;
  const double narrow = MaxwellKernelUs(p, device, work, kNarrowKernel);
  const double blocks = std::ceil(Positive(work.m) / kSquareKernel.rows) *
                        std::ceil(Positive(work.n) / kSquareKernel.cols);
  if (blocks > kFewBlocks * device.sms) return narrow;
  return std::min({narrow, MaxwellKernelUs(p, device, work, kSquareKernel),
                   MaxwellKernelUs(p, device, work, kFlatKernel)});
}

// How many times as long kernels take whose operands both lie along the reduction, where those rows
// are long. Blocks walk 160 rows side by side, 32 bytes of each a step. From some waves on
// NeuSight's P100 is the slower the longer the rows are, down to less than half from 192 KiB a row
// on, whatever lies beyond; first waves are not, fewer the longer their reduction. So it is when
// blocks no longer keep step, each then fetches its own lines from DRAM, and neighbouring rows
// share its open pages the less the farther they lie apart; counters that would show it were not
// read. Set by half of NeuSight's training rows, judged by its test rows and DeepBench.
double LongRowsTimes(const GpuPeaks& device, const KernelWork& work) {
  constexpr double kResident = 4;
  constexpr double kInStep = 5000;  // of the reduction, over all waves
  constexpr double kShortBytes = 24 * 1024, kLongBytes = 192 * 1024, kMost = 1.6;
  if (work.across_reduction > 0) return 1;
  const double k = Positive(work.k), bytes = k * Positive(ElementSize(work.dtype));
  const double blocks = std::ceil(Positive(work.n) / kNarrowKernel.cols) *
                        std::ceil(Positive(work.m) / kNarrowKernel.rows);
  const double waves = blocks / device.sms / kResident;
  const double apart =
      std::clamp(std::log(bytes / kShortBytes) / std::log(kLongBytes / kShortBytes), 0.0, 1.0);
  return 1 + kMost * apart * std::max(1 - kInStep / (waves * k), 0.0);
}

}  // namespace

bool RunsMaxwellGemms(const GpuPeaks& device) {
  return device.accelerator.vendor == "NVIDIA" && device.fp16_tflops <= 0;
}

double MaxwellGemmUs(const GemmParameters& p, const GpuPeaks& device, const KernelWork& work) {
  const double us = work.adds_bias ? WithBiasUs(p, device, work)
                                   : GemmRoofline(p, device, Precision::kFloat32, work).kernel_us;
  return p.base_us + (us - p.base_us) * LongRowsTimes(device, work);
}

}  // namespace foretrace
