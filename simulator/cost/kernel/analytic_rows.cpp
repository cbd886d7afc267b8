#include "simulator/cost/kernel/analytic_rows.h"

#include <algorithm>
#include <cmath>

#include "simulator/cost/kernel/analytic_memory.h"
#include "simulator/cost/kernel/code_fetch.h"
#include "simulator/cost/kernel/vector_rates.h"

namespace foretrace {
namespace {

// PyTorch's kernels, aten/src/ATen/native/cuda/{layer_norm_kernel.cu,SoftMax.cu,
// PersistentSoftmax.cuh}. Instructions are counted in those of integers, which run at half the rate
// of fp32 on recent devices; where the source leaves the count open (division, exponential, the
// compiler's unrolling), TimeSformer's kernels (H100, traces/README.md) decided, and OWLv2's, ViT's
// and BERT's took no part (docs/accuracy.md).

// A block of a layer norm: rows load, means and deviations meet over five shuffles of a warp and
// over the warps of the block, each a chain of divisions, then the row is read again. A step is a
// load and four dependent updates (Welford); from the third on loads are under way while earlier
// steps are summed.
constexpr double kNormCycles = 3300, kNormStepCycles = 860, kNormUpdateCycles = 360;
constexpr double kNormStepInstructions = 30;
constexpr double kNormRegisters = 40, kNormGradientRegisters = 32;  // of a thread

// A block of a softmax over long rows: three passes, each behind a trip to memory or L2, two
// reductions over the block.
constexpr double kSoftmaxCycles = 2900;
// A row within a warp: one trip, reductions by shuffles.
constexpr double kWarpSoftmaxCycles = 2000;
// Of an element: maximum, difference, two exponentials, sum, division, conversions; and each time
// that it is loaded or stored by itself.
constexpr double kSoftmaxInstructions = 25, kAccessInstructions = 9;
constexpr double kBlockSoftmaxAccesses = 4;  // three passes read, one writes
constexpr double kWarpSoftmaxAccesses = 2;
constexpr double kWidestBytes = 16;  // of a load

// Lines of code beyond the first that a norm waits for, where its launch has not fetched them
// (trace_diff/control, A100).
constexpr double kCodeCycles = 1500;

struct RowBlocks {
  double blocks = 0, threads = 0;
  double latency_us = 0;    // of a block, however few there are
  double instructions = 0;  // of a block
  double registers = 0;     // of a thread; 0: no limit
};

// `blocks` share the device's multiprocessors, as many at once as these have threads for: full
// waves, then what is left. Those of one multiprocessor share its lanes.
double BlocksUs(const RowBlocks& rows, const GpuPeaks& device, const VectorRates& rates) {
  constexpr double kMostBlocks = 16;
  const double per_sm = std::min(device.resident_blocks(rows.threads, rows.registers), kMostBlocks);
  const double of_sm_us = rows.instructions * device.sms / rates.integers_per_us;
  const double waves = rows.blocks / (per_sm * device.sms);
  const double full = std::floor(waves), rest = std::ceil((waves - full) * per_sm - 1e-9);
  return full * (rows.latency_us + per_sm * of_sm_us) +
         (rest > 0 ? rows.latency_us + rest * of_sm_us : 0);
}

RowBlocks LayerNorm(const KernelWork& work, const VectorRates& rates) {
  constexpr double kThreads = 128, kVector = 4;
  RowBlocks r;
  r.blocks = static_cast<double>(work.rows);
  r.threads = kThreads;
  const double steps = std::ceil(static_cast<double>(work.cols) / (kVector * kThreads));
  r.latency_us = (kNormCycles + std::min(steps, 2.0) * kNormStepCycles +
                  std::max(steps - 2, 0.0) * kNormUpdateCycles) /
                 rates.cycles_per_us;
  r.instructions = steps * kThreads * kNormStepInstructions;
  r.registers = work.pass == Direction::kForward ? kNormRegisters : kNormGradientRegisters;
  return r;
}

// The same kernel where squares alone are summed (PyTorch 2.9's _fused_rms_norm): chains are those
// of an engine's norm, a step is a load and four products that are added up. Its second pass reads
// rows from L2, as those of all blocks at once are more than the first cache holds: bytes of a
// cycle and multiprocessor are what llama3-8b-l4-s8192-b1-none's kernels take (H100,
// traces/README.md, "Captured").
constexpr double kMeanSquareCycles = 700 + 400 + 300, kMeanSquareStepCycles = 100;
constexpr double kMeanSquareStepInstructions = 15, kSecondPassBytesPerCycle = 21;

RowBlocks MeanSquareNorm(const KernelWork& work, const VectorRates& rates) {
  constexpr double kThreads = 128, kVector = 4;
  RowBlocks r;
  r.blocks = static_cast<double>(work.rows);
  r.threads = kThreads;
  const double steps = std::ceil(static_cast<double>(work.cols) / (kVector * kThreads));
  r.latency_us = (kMeanSquareCycles + steps * kMeanSquareStepCycles) / rates.cycles_per_us;
  r.instructions = steps * kThreads * kMeanSquareStepInstructions;
  r.registers = kNormGradientRegisters;
  return r;
}

double SecondPassUs(const KernelWork& work, const GpuPeaks& device, const VectorRates& rates) {
  const double bytes =
      2 * static_cast<double>(work.read.count()) + static_cast<double>(work.written.count());
  return bytes / (kSecondPassBytesPerCycle * device.sms * rates.cycles_per_us);
}

// A norm of a serving engine (vLLM, csrc/layernorm_kernels.cu; TensorRT-LLM's and SGLang's are of
// its form): a block a row, loads of 16 bytes, one sum of squares over the block, then the row's
// elements once more, out of registers or the first cache, by the weights. A trip to memory; ten
// shuffles and two barriers; a trip to the cache. Steps after the first have their loads under way
// by then. Of an element: conversions, residual, square, two products.
RowBlocks EngineNorm(const KernelWork& work, const VectorRates& rates) {
  constexpr double kCycles = 700 + 400 + 300, kStepCycles = 100, kElementInstructions = 10;
  constexpr double kMostRowsOfLargeBlocks = 256, kLargeBlock = 1024, kSmallBlock = 256;
  const auto cols = static_cast<double>(work.cols);
  const double vectors = std::ceil(cols / static_cast<double>(work.load_elements));
  RowBlocks r;
  r.blocks = static_cast<double>(work.rows);
  const double most = r.blocks < kMostRowsOfLargeBlocks ? kLargeBlock : kSmallBlock;
  r.threads = std::clamp(std::ceil(vectors / 32) * 32, 32.0, most);
  const double steps = std::ceil(vectors / r.threads);
  r.latency_us = (kCycles + std::max(steps - 1, 0.0) * kStepCycles) / rates.cycles_per_us;
  r.instructions = cols * kElementInstructions;
  return r;
}

// A warp a row, of as many lanes as a power of two holds its columns; 128 threads a block.
RowBlocks WarpSoftmax(const KernelWork& work, const VectorRates& rates) {
  double padded = 1;
  while (padded < static_cast<double>(work.cols)) padded *= 2;
  RowBlocks r;
  r.threads = 128;
  const double rows = r.threads / std::min(padded, 32.0) * (padded <= 128 ? 2 : 1);
  r.blocks = std::ceil(static_cast<double>(work.rows) / rows);
  r.latency_us = kWarpSoftmaxCycles / rates.cycles_per_us;
  r.instructions =
      rows * padded * (kSoftmaxInstructions + kWarpSoftmaxAccesses * kAccessInstructions);
  return r;
}

// A block of up to 1,024 threads a row, a vector of 16 bytes a thread and step; what no step of all
// threads covers goes element by element.
RowBlocks BlockSoftmax(const KernelWork& work, const VectorRates& rates) {
  const auto cols = static_cast<double>(work.cols);
  RowBlocks r;
  r.blocks = static_cast<double>(work.rows);
  r.threads = 1024;
  const double vector =
      kWidestBytes / static_cast<double>(std::max<int64_t>(ElementSize(work.dtype), 1));
  const double in_vectors = std::floor(cols / (vector * r.threads)) * vector * r.threads;
  const double accesses = kBlockSoftmaxAccesses * kAccessInstructions;
  r.latency_us = kSoftmaxCycles / rates.cycles_per_us;
  r.instructions =
      cols * kSoftmaxInstructions + accesses * (in_vectors / vector + cols - in_vectors);
  return r;
}

}  // namespace

double AnalyticRowsUs(const MemoryParameters& streaming, const GpuPeaks& device,
                      const KernelWork& work) {
  const VectorRates rates = VectorRatesOf(device);
  const bool norm = work.kind == KernelKind::kLayerNorm;
  const bool squares = norm && work.mean_square && work.load_elements == 0;
  const RowBlocks rows = norm && work.load_elements > 0 ? EngineNorm(work, rates)
                         : squares                      ? MeanSquareNorm(work, rates)
                         : norm                         ? LayerNorm(work, rates)
                         : KeepsRowsInRegisters(work)   ? WarpSoftmax(work, rates)
                                                        : BlockSoftmax(work, rates);
  // Later passes over a row miss the cache where the rows in flight outgrow it.
  const double memory_us =
      MemoryRoofline(BeyondCache(streaming, device, work), device, work).memory_us;
  double blocks_us = BlocksUs(rows, device, rates);
  if (squares) blocks_us = std::max(blocks_us, SecondPassUs(work, device, rates));
  // A block of a norm waits for each of its few loads, the longer the busier the memory is.
  constexpr double kLoaded = 2.5;
  // Of one kernel in a stream of others; what fits to benchmarks' loops do not have.
  const double code_us = norm && !LaunchesFetchCode(device) ? kCodeCycles / rates.cycles_per_us : 0;
  return streaming.base_us + code_us +
         (norm && work.load_elements == 0 ? SmoothSum(memory_us, blocks_us, kLoaded)
                                          : SmoothMax(memory_us, blocks_us));
}

}  // namespace foretrace
