#include "simulator/cost/kernel/tiled_convolution.h"

#include <algorithm>
#include <cmath>

#include "simulator/cost/kernel/vector_rates.h"

namespace foretrace {
namespace {

// A block of 256 threads takes its 32 by 32 elements in four turns, each a trip to memory.
constexpr double kTransformTrips = 4;

double Positive(int64_t x) { return static_cast<double>(std::max<int64_t>(x, 1)); }

}  // namespace

double TiledConvolutionUs(const GemmParameters& p, const GpuPeaks& device, Precision precision,
                          const KernelWork& work) {
  const double rows = Positive(work.tile.rows), cols = Positive(work.tile.cols),
               depth = Positive(work.tile.depth);
  const double positions = Positive(work.filter_h) * Positive(work.filter_w);
  const double channels = std::max(Positive(work.k) / positions, 1.0);
  const double steps = positions * std::ceil(channels / depth);
  const double blocks = Positive(work.batch) * std::ceil(Positive(work.m) / rows) *
                        std::ceil(Positive(work.n) / cols);
  const double intensity = rows * cols / (rows + cols);
  const double rate = device.peak_tflops(precision) * 1e6 / device.sms *
                      WarpInstructionShare(device, work) * p.compute_efficiency * intensity /
                      (intensity + p.tile_intensity);
  const double compute_us = std::ceil(blocks / device.sms) * steps * 2 * rows * cols * depth / rate;
  const double memory_us =
      static_cast<double>(work.total_bytes()) / (device.dram_gbps * 1e3 * p.bandwidth_efficiency);
  return p.base_us + SmoothSum(compute_us, memory_us, p.overlap_power);
}

double LayoutTransformUs(const GpuPeaks& device, double waves) {
  const double trip_us = ColdStartUs(device, 2) - ColdStartUs(device, 1);
  return ColdStartUs(device, 0) + std::max(waves, 1.0) * kTransformTrips * trip_us;
}

}  // namespace foretrace
