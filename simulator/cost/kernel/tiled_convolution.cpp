#include "simulator/cost/kernel/tiled_convolution.h"

#include <algorithm>
#include <cmath>

#include "simulator/cost/kernel/analytic_gemm.h"
#include "simulator/cost/kernel/roofline.h"
#include "simulator/cost/kernel/sizes.h"
#include "simulator/cost/kernel/vector_rates.h"

namespace foretrace {
namespace {

// A block of 256 threads takes its 32 by 32 elements in four turns, each a trip to memory.
constexpr double kTransformTrips = 4, kTransformThreads = 256, kTransformElements = 32 * 32;
constexpr double kTransformBandwidth = 0.88;
// Instructions for an element of an image that is padded to channels of a whole load of 16 bytes:
// divisions of its place (resnet50-b256-bf16).
constexpr double kPadInstructions = 33;
// Of the rate by tiles that are fetched by descriptors (TMA), with addresses of single pixels
// (dgrad ..._strided_... of resnet50-b64-tf32 and -b256-bf16, H100, traces/README.md, "Captured").
constexpr double kScattered = 0.7;
// wgmma takes operands of TF32 along the reduction alone (PTX ISA, "Asynchronous warpgroup-level
// matrix instructions"): those that lie across it go through registers. Of the same recording.
constexpr double kTransposedTf32 = 0.5;
// Of the rate, where a group of warps multiplies by 64 columns or fewer at once: it reads as much
// of shared memory as it has time to multiply. By the same two recordings.
constexpr double kNarrow = 0.65, kNarrowColumns = 64;
// How the tiles of fp32 and their loads add up: by the same.
constexpr double kTf32Overlap = 1.5;

}  // namespace

double TiledGemmUs(const GpuPeaks& device, Precision precision, const TiledGemm& gemm) {
  const GemmParameters p = AnalyticGemm(device, precision);
  const double rows = Positive(gemm.tile.rows), cols = Positive(gemm.tile.cols),
               depth = Positive(gemm.tile.depth);
  const double channels = std::max(gemm.k / gemm.positions, 1.0);
  const double steps = gemm.positions * std::ceil(channels / depth);
  // Names do not say which side lies along which.
  const auto tiles = [&](double down, double across) {
    return gemm.batch * std::ceil(gemm.m / down) * std::ceil(gemm.n / across);
  };
  const double waves = std::min(tiles(rows, cols), tiles(cols, rows)) / device.sms;
  const double intensity = rows * cols / (rows + cols);
  const InstructionFacts& facts = device.accelerator.instructions;
  const bool tf32 = precision == Precision::kTensorFloat32;
  double rate = device.peak_tflops(precision) * 1e6 / device.sms * p.compute_efficiency *
                intensity / (intensity + p.tile_intensity);
  if (gemm.by_warps) rate *= facts.warp_gemms;
  rate *= gemm.reached;
  if (gemm.narrow && cols <= kNarrowColumns) rate *= kNarrow;
  if (gemm.scattered) rate *= kScattered;
  if (gemm.transposed && tf32 && !gemm.by_warps && facts.by_warpgroups()) rate *= kTransposedTf32;
  const double filled = gemm.shared ? waves : std::ceil(waves);
  const double compute_us = filled * steps * 2 * rows * cols * depth / rate;
  const double memory_us = gemm.bytes / (device.dram_gbps * 1e3 * p.bandwidth_efficiency);
  return p.base_us + SmoothSum(compute_us, memory_us, tf32 ? kTf32Overlap : p.overlap_power);
}

double PresentPixels(const LaunchAttr* launch) {
  constexpr double kBlock = 32, kFilter = 9;
  if (launch == nullptr) return 1;
  const double blocks = launch->grid[0];
  return blocks > 1 ? (blocks - 0.5) / blocks : kFilter / kBlock;
}

double LayoutTransformUs(const GpuPeaks& device, double waves, int64_t element_bytes,
                         double present) {
  const double trip_us = ColdStartUs(device, 2) - ColdStartUs(device, 1);
  const double elements =
      device.sms * device.resident_blocks(kTransformThreads) * kTransformElements;
  const double moved_us =
      2 * elements * Positive(element_bytes) / (device.dram_gbps * 1e3 * kTransformBandwidth);
  return ColdStartUs(device, 0) +
         std::max(waves * present * moved_us, std::max(waves, 1.0) * kTransformTrips * trip_us);
}

double LayoutTransformsUs(const GpuPeaks& device, int kernels, double bytes) {
  return kernels * ColdStartUs(device, static_cast<int64_t>(kTransformTrips)) +
         2 * bytes / (device.dram_gbps * 1e3 * kTransformBandwidth);
}

double PaddedImagesUs(const GpuPeaks& device, double elements) {
  return ColdStartUs(device, 2) + InstructionUs(device, elements * kPadInstructions);
}

}  // namespace foretrace
