#include "simulator/cost/kernel/attention_roofline.h"

#include <algorithm>
#include <cmath>

namespace foretrace {
namespace {

// Queries of a thread block forward, keys backward; the other side passes by in tiles of as many.
// Under a causal mask a tile on the diagonal is computed whole.
constexpr double kTile = 128;
constexpr double kLargestTileIntensity = 128.0 * 256 / (128 + 256);
constexpr double kForwardProducts = 2, kBackwardProducts = 5;

// Instructions a score that the backward pass has beyond its exponentials: difference, product,
// mask, conversions of P and dS, their stores, the sums of dQ. Unlike forward, registers leave no
// second block whose products could run meanwhile. What published kernels need on A100
// (FlashAttention-2, 2023, figure 6), H100 (FlashAttention-3, 2024, figure 6) and B200 amounts to
// 10 to 16.
constexpr double kBackwardInstructions = 12;

}  // namespace

VectorRates VectorRatesOf(const GpuPeaks& device) {
  // CUDA C++ programming guide, throughput of native arithmetic instructions: 16 results of special
  // functions a clock and multiprocessor, compute capabilities 6.0 to 10.0; AMD's CDNA as many.
  constexpr double kExponentials = 16;
  double per_us = 0;
  for (const ComputeUnit& unit : device.accelerator.units) {
    if (unit.kind != UnitKind::kSimt) continue;
    per_us = std::max(per_us, kExponentials * unit.count * unit.clock_hz * 1e-6);
  }
  // A multiply-add is one instruction. Without a clock four lanes share a special-function unit.
  const double instructions = device.fp32_tflops * 1e6 / 2;
  return {per_us > 0 ? per_us : instructions / 4, instructions};
}

GemmTime AttentionRoofline(const GemmParameters& p, const GpuPeaks& device, Precision precision,
                           const KernelWork& work) {
  const bool forward = work.pass == Direction::kForward;
  const double products = forward ? kForwardProducts : kBackwardProducts;
  const auto real = [](int64_t n) { return static_cast<double>(std::max<int64_t>(n, 1)); };
  const double batch = real(work.batch), m = real(work.m), n = real(work.n), k = real(work.k);
  const double scores = work.flop.count() / (2 * k * products);
  const double masked = scores < 0.75 * batch * m * n ? 1 + kTile / n : 1;
  // A tile's products load one row of keys and one of values for each key and use both for all
  // queries of the block, which is more intense than any tile of a GEMM; what is left to limit them
  // is what limits the GEMM's largest.
  const double rate = device.peak_tflops(precision) * 1e6 * p.compute_efficiency *
                      kLargestTileIntensity / (kLargestTileIntensity + p.tile_intensity);
  const VectorRates vector = VectorRatesOf(device);
  double between = 1 / vector.exponentials_per_us;
  if (!forward) between += kBackwardInstructions / vector.instructions_per_us;
  GemmTime time;
  time.waves = batch * std::ceil((forward ? m : n) / kTile) / device.sms;
  const double full = std::ceil(time.waves);
  const double filled = full + p.partial_wave * (std::max(time.waves, 1.0) - full);
  time.compute_us = masked * (work.flop.count() / rate + scores * between) * filled / time.waves;
  const double bytes_per_us = device.dram_gbps * 1e3 * p.bandwidth_efficiency;
  time.memory_us = static_cast<double>(work.total_bytes()) / bytes_per_us;
  // However few keys a block has, it loads its queries, fills its pipeline and writes its results;
  // those of one multiprocessor follow each other.
  time.compute_us += p.block_us * time.waves;
  time.kernel_us = p.base_us + SmoothSum(time.compute_us, time.memory_us, p.overlap_power);
  return time;
}

}  // namespace foretrace
