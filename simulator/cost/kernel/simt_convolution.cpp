#include "simulator/cost/kernel/simt_convolution.h"

#include <algorithm>
#include <cmath>

#include "simulator/cost/kernel/sizes.h"
#include "simulator/cost/kernel/vector_rates.h"

namespace foretrace {
namespace {

// Constants are what kernels of resnet50-b16-fp32 take (H100, traces/README.md, "Captured").
//
// A thread with r x c results takes r + c operands out of shared memory, which hands out so many
// bytes a cycle and multiprocessor; that many cycles of its products each operand costs, stored one
// by one or by 16 bytes.
constexpr double kSharedLanes = 128;
constexpr double kLoadsOneByOne = 2.4, kLoadsByVectors = 1.6;
// A step of the reduction that waits for its operands, however few blocks there are.
constexpr double kStepOneByOne = 600, kStepByVectors = 330;
// Of a wave: the first operands, the results.
constexpr double kWaveTrips = 2;
// A block of dgrad_engine adds its results to memory.
constexpr double kAddCycles = 900;
// Cycles for an operand that wgrad_alg0_engine fetches. Blocks of two warps whose filters have a
// single position take more; why is not known (resnet50-b16-fp32; those of eight warps on a V100 do
// not).
constexpr double kFetchCycles = 0.15, kFetchAloneCycles = 0.51;
constexpr double kWarp = 32;

double Up(double x, int64_t side) { return std::ceil(x / Positive(side)); }

// r c / (r + c) of a thread, whose results are as square as powers of two allow.
double IntensityOf(const GemmBlock& block) {
  const double results =
      std::max(Positive(block.rows) * Positive(block.cols) / (kWarp * Positive(block.warps)), 1.0);
  const double rows = std::exp2(std::ceil(std::log2(results) / 2)), cols = results / rows;
  return rows * cols / (rows + cols);
}

// Cycles that a multiprocessor is busy with a step of a block: products, then operands.
double StepCycles(const GpuPeaks& device, const GemmBlock& block, double loads, bool complex) {
  const double cycles_per_us = VectorRatesOf(device).cycles_per_us;
  const double lanes = device.fp32_tflops * 1e6 / 2 / (device.sms * cycles_per_us);
  const double products = Positive(block.rows) * Positive(block.cols) * Positive(block.depth);
  // Of two complex numbers four, of twice as many operands.
  return products * (complex ? 4 : 1) / lanes +
         products * (complex ? 2 : 1) * loads / IntensityOf(block) / kSharedLanes;
}

double StartUs(const GpuPeaks& device) { return ColdStartUs(device, 4); }

}  // namespace

double SimtGemmsUs(const GpuPeaks& device, const SimtGemms& gemms) {
  const GemmBlock& block = gemms.block;
  const VectorRates rates = VectorRatesOf(device);
  const double blocks = gemms.batch * Up(gemms.m, block.rows) * Up(gemms.n, block.cols);
  const double steps = Up(gemms.k, block.depth);
  const double busy = StepCycles(
      device, block, gemms.channels_last ? kLoadsByVectors : kLoadsOneByOne, gemms.complex);
  const double wait = gemms.channels_last ? kStepByVectors : kStepOneByOne;
  const double resident = ResidentBlocks(device, block, gemms.complex ? 8 : 4);
  const double most = std::ceil(blocks / device.sms);
  const double rounds = std::floor(most / resident), last = most - rounds * resident;
  const double cycles = steps * (rounds * std::max(resident * busy, wait) +
                                 (last > 0 ? std::max(last * busy, wait) : 0));
  const double trip_us = ColdStartUs(device, 1) - ColdStartUs(device, 0);
  return StartUs(device) + cycles / rates.cycles_per_us +
         std::ceil(most / resident) * kWaveTrips * trip_us;
}

double InputGradientEngineUs(const GpuPeaks& device, const GemmBlock& block,
                             const EngineShape& shape) {
  const double blocks =
      shape.images * shape.taps * Up(shape.channels, block.cols) * Up(shape.pixels, block.rows);
  const double steps = Up(shape.filters, block.depth);
  const double cycles = steps * StepCycles(device, block, kLoadsOneByOne, false) + kAddCycles;
  return StartUs(device) +
         std::max(blocks / device.sms, 1.0) * cycles / VectorRatesOf(device).cycles_per_us;
}

double WeightGradientEngineUs(const GpuPeaks& device, const GemmBlock& block,
                              const EngineShape& shape) {
  const double tiles = Up(shape.filters, block.rows) * Up(shape.channels * shape.taps, block.cols);
  const double steps = tiles * Up(shape.images * shape.pixels, block.depth);
  const bool alone = shape.taps <= 1 && block.warps <= 2;
  const double fetched = Positive(block.rows + block.cols) * Positive(block.depth);
  const double cycles = StepCycles(device, block, kLoadsOneByOne, false) +
                        fetched * (alone ? kFetchAloneCycles : kFetchCycles);
  return StartUs(device) + steps / device.sms * cycles / VectorRatesOf(device).cycles_per_us;
}

double ForwardEngineUs(const GpuPeaks& device, const GemmBlock& block, const EngineShape& shape) {
  const double blocks = Up(shape.images * shape.pixels, block.rows) * Up(shape.filters, block.cols);
  const double steps = Up(shape.channels * shape.taps, block.depth);
  const double cycles = steps * StepCycles(device, block, kLoadsOneByOne, false);
  return StartUs(device) +
         std::ceil(blocks / device.sms) * cycles / VectorRatesOf(device).cycles_per_us;
}

}  // namespace foretrace
