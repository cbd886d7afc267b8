#include "simulator/cost/kernel/scaled_block_gemm.h"

#include <cmath>

#include "simulator/cost/kernel/roofline.h"
#include "simulator/cost/kernel/sizes.h"
#include "simulator/cost/kernel/vector_rates.h"

namespace foretrace {
namespace {

constexpr double kScaled = 128;  // of the reduction, and columns of weights, that share a scale

// y[m,n] is computed as it lies, or turned round, so that few rows of x do not fill a block.
struct ScaledBlocks {
  double rows = 0, cols = 0;  // of a block
  double waves = 0;           // of all blocks
  double absent_rows = 0;     // of the last blocks
  double last_blocks = 0;     // of a multiprocessor, among those with absent rows
};

// DeepGEMM's own choice, as TensorRT-LLM has it (get_best_gemm_config, gemm_dispatch of
// fp8_blockscale_gemm): 64 or 128 rows, and as many columns, 16 to 128 by 8, as take the fewest
// waves, of those the most blocks in the last; from 32 rows of x on as it lies.
ScaledBlocks ChosenBlocks(const GpuPeaks& device, const KernelWork& work) {
  constexpr double kLeastRows = 32, kNarrow = 64, kWide = 128, kLeastCols = 16, kColsStep = 8;
  const bool turned = Positive(work.m) < kLeastRows;
  const double rows = Positive(turned ? work.n : work.m);
  const double cols = Positive(turned ? work.m : work.n);
  ScaledBlocks best;
  best.rows = rows <= kNarrow ? kNarrow : kWide;
  const double down = std::ceil(rows / best.rows);
  double most_in_last = 0;
  for (double width = kLeastCols; width <= kScaled; width += kColsStep) {
    const double blocks = Positive(work.batch) * down * std::ceil(cols / width);
    const double waves = std::ceil(blocks / device.sms);
    const double in_last = blocks - (waves - 1) * device.sms;
    if (best.cols > 0 && (waves > best.waves || (waves == best.waves && in_last <= most_in_last))) {
      continue;
    }
    best.cols = width;
    best.waves = waves;
    most_in_last = in_last;
  }
  best.absent_rows = down * best.rows - rows;
  best.last_blocks = std::ceil(Positive(work.batch) * std::ceil(cols / best.cols) / device.sms);
  return best;
}

}  // namespace

// Of every 128 of the reduction registers take a block's sums, multiply them by two scales and add
// them up, which one of two warpgroups does while the other multiplies. Columns that 128 is no
// multiple of meet two scales of weights. Rows that a block's copies (TMA) do not find are filled
// with zeros, one by one. A block's results are stored beside nothing else. The kernel starts
// before the cast before it has ended (programmatic dependent launch). Cycles, and how much of the
// memory's time arithmetic hides, are set by the H100 (aiconfigurator fp8_block, weight matrices
// whose "n=N;k=K" has an even CRC-32; the others judge).
double ScaledBlockGemmUs(const GpuPeaks& device, double bandwidth_efficiency,
                         const KernelWork& work) {
  constexpr double kStep = 170, kColumn = 4.2, kTwoScales = 147, kAbsentRow = 2.2;
  constexpr double kBlock = 3300, kOverlap = 1.8;
  const ScaledBlocks blocks = ChosenBlocks(device, work);
  const double step =
      kStep + kColumn * blocks.cols + (std::fmod(kScaled, blocks.cols) > 0 ? kTwoScales : 0);
  const double steps = std::ceil(Positive(work.k) / kScaled);
  const double cycles = blocks.waves * (steps * step + kBlock) +
                        blocks.last_blocks * steps * blocks.absent_rows * kAbsentRow;
  const double memory_us =
      static_cast<double>(work.total_bytes()) / (device.dram_gbps * 1e3 * bandwidth_efficiency);
  return SmoothSum(cycles / VectorRatesOf(device).cycles_per_us, memory_us, kOverlap);
}

}  // namespace foretrace
