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

// A block of a softmax that goes over a long row three times, each behind a trip to memory or L2,
// two reductions over the block.
constexpr double kPassesCycles = 2900;
// Of an element: maximum, difference, two exponentials, sum, division, conversions; and each time
// that it is loaded or stored by itself.
constexpr double kPassesInstructions = 25, kAccessInstructions = 9;
constexpr double kPassesAccesses = 4;  // three passes read, one writes
constexpr double kWidestBytes = 16;    // of a load
constexpr int64_t kNormVector = 4;     // elements of a load of a norm

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

// Of softmax: what no source states was set with the even rows of
// calibration/h100-sxm5-nvswitch/measurements/kernels.csv.xz (PyTorch 2.11).

double PowerOfTwoFrom(double x) {
  double power = 1;
  while (power < x) power *= 2;
  return power;
}

// A warp a row, or two of up to 128 columns, of as many lanes as a power of two holds its columns;
// 128 threads a block. All is unrolled over the elements of a lane, which its registers hold: two
// maxima and sums by shuffles, then for each element an exponential in a chain, whose code is
// fetched from L2 where it outgrows the cache of instructions.
RowBlocks WarpSoftmax(const KernelWork& work, const VectorRates& rates) {
  constexpr double kCycles = 1180, kLaneCycles = 97, kFetchCycles = 81, kCachedElements = 32;
  constexpr double kPadded = 9.5, kReal = 12;  // instructions; only real elements are moved
  constexpr double kGradientCycles = 985, kGradientLaneCycles = 16, kGradientReal = 7.7;
  constexpr double kRegistersBeside = 28;
  const auto cols = static_cast<double>(work.cols);
  const bool forward = work.pass == Direction::kForward;
  const double padded = PowerOfTwoFrom(cols), lanes = std::min(padded, 32.0);
  const double of_warp = padded <= 128 ? 2 : 1;
  const double of_lane = padded / lanes * of_warp;
  RowBlocks r;
  r.threads = 128;
  const double rows = r.threads / lanes * of_warp;
  r.blocks = std::ceil(static_cast<double>(work.rows) / rows);
  r.registers = kRegistersBeside + of_lane * (forward ? 1 : 2);
  const double code = kFetchCycles * std::max(padded / lanes - kCachedElements, 0.0);
  const double cycles = forward ? kCycles + kLaneCycles * of_lane + code
                                : kGradientCycles + kGradientLaneCycles * of_lane;
  r.latency_us = cycles / rates.cycles_per_us;
  r.instructions = rows * (forward ? padded * kPadded + cols * kReal : cols * kGradientReal);
  return r;
}

// A block of 1,024 threads a row (cunn_SoftMaxForwardReg), of which each has up to nine elements in
// registers: a load, then a maximum and a sum over the block. From seven elements on registers are
// left for one block alone.
constexpr double kMostOfThread = 9;
RowBlocks RegisterSoftmax(const KernelWork& work, const VectorRates& rates) {
  constexpr double kThreads = 1024, kCycles = 1100, kElementCycles = 330, kInstructions = 31;
  constexpr double kShared = 6, kRegisters = 32, kAllRegisters = 64;
  const double each = std::ceil(static_cast<double>(work.cols) / kThreads);
  RowBlocks r;
  r.blocks = static_cast<double>(work.rows);
  r.threads = kThreads;
  r.registers = each <= kShared ? kRegisters : kAllRegisters;
  r.latency_us = (kCycles + each * kElementCycles) / rates.cycles_per_us;
  r.instructions = each * kThreads * kInstructions;
  return r;
}

// Gradients of rows that shared memory could hold (cunn_SoftMaxBackwardSmem, cunn_SoftMaxBackward):
// about half as many threads as there are vectors; rows that lie in whole vectors are kept in it
// between the sum and the result, others are read again, from the cache, element by element.
RowBlocks GradientSoftmax(const KernelWork& work, const VectorRates& rates) {
  constexpr double kMostThreads = 1024;
  constexpr double kVectorCycles = 1480, kStepCycles = 260, kVectorInstructions = 7.5;
  constexpr double kCycles = 4240, kElementCycles = 230, kInstructions = 26;
  const auto cols = static_cast<double>(work.cols);
  const auto bytes = static_cast<double>(std::max<int64_t>(ElementSize(work.dtype), 1));
  const double vector = kWidestBytes / bytes;
  RowBlocks r;
  r.blocks = static_cast<double>(work.rows);
  r.threads = std::max(PowerOfTwoFrom(std::min(std::floor(cols / vector), kMostThreads) / 2), 32.0);
  const bool whole = std::fmod(cols, vector) == 0;
  const double steps = std::ceil(cols / (whole ? vector : 1) / r.threads);
  r.latency_us = (whole ? kVectorCycles + steps * kStepCycles : kCycles + steps * kElementCycles) /
                 rates.cycles_per_us;
  r.instructions = cols * (whole ? kVectorInstructions : kInstructions);
  return r;
}

// aten/src/ATen/native/cuda/SoftMax.cu, host_softmax and host_softmax_backward: of 2.10, and of 2.1
// on devices before Ampere, which builds of later releases no longer run on.
RowPlace PlaceByColumns(const GpuPeaks& device, const KernelWork& work) {
  constexpr int64_t kWarp = 2048, kGradientWarp = 1024, kThreads = 1024;
  constexpr int64_t kSharedBytes = 48 << 10;  // of a block, static and dynamic
  if (work.row_place != RowPlace::kByColumns) return work.row_place;
  if (!CopiesPastRegisters(device)) {
    return KeepsRowsInRegisters(work) ? RowPlace::kWarp : RowPlace::kMemory;
  }
  if (work.pass != Direction::kForward) {
    if (work.cols <= kGradientWarp) return RowPlace::kWarp;
    const int64_t bytes = SaturatingProduct({work.cols, ElementSize(work.dtype)});
    return bytes < kSharedBytes ? RowPlace::kBlock : RowPlace::kMemory;
  }
  if (work.cols <= kWarp) return RowPlace::kWarp;
  const double each = std::ceil(static_cast<double>(work.cols) / kThreads);
  return each <= kMostOfThread ? RowPlace::kBlock : RowPlace::kMemory;
}

// Forward a block of 1,024 threads a row, a vector of 16 bytes a thread and step; what no step of
// all threads covers goes element by element.
RowBlocks PassesSoftmax(const KernelWork& work, const VectorRates& rates) {
  const auto cols = static_cast<double>(work.cols);
  RowBlocks r;
  r.blocks = static_cast<double>(work.rows);
  r.threads = 1024;
  const double vector =
      kWidestBytes / static_cast<double>(std::max<int64_t>(ElementSize(work.dtype), 1));
  const double in_vectors = std::floor(cols / (vector * r.threads)) * vector * r.threads;
  const double accesses = kPassesAccesses * kAccessInstructions;
  r.latency_us = kPassesCycles / rates.cycles_per_us;
  r.instructions =
      cols * kPassesInstructions + accesses * (in_vectors / vector + cols - in_vectors);
  return r;
}

// Later passes over a row miss the cache where the rows in flight outgrow it.
double MemoryUs(const MemoryParameters& streaming, const GpuPeaks& device, const KernelWork& work) {
  return MemoryRoofline(BeyondCache(streaming, device, work), device, work).memory_us;
}

// A block of a norm waits for each of its few loads, the longer the busier the memory is.
constexpr double kLoaded = 2.5;

double SoftmaxUs(const MemoryParameters& streaming, const GpuPeaks& device,
                 const KernelWork& work) {
  const VectorRates rates = VectorRatesOf(device);
  const RowPlace place = PlaceByColumns(device, work);
  if (place == RowPlace::kMemory) {
    const double blocks_us = BlocksUs(PassesSoftmax(work, rates), device, rates);
    return streaming.base_us + SmoothMax(MemoryUs(streaming, device, work), blocks_us);
  }
  const bool forward = work.pass == Direction::kForward;
  const RowBlocks rows = place == RowPlace::kWarp ? WarpSoftmax(work, rates)
                         : forward                ? RegisterSoftmax(work, rates)
                                                  : GradientSoftmax(work, rates);
  KernelWork kept = work;
  kept.read_again = Bytes();
  // Loads of a row wait for each other's blocks.
  constexpr double kOverlap = 4;
  return streaming.base_us +
         SmoothSum(MemoryUs(streaming, device, kept), BlocksUs(rows, device, rates), kOverlap);
}

// Rows that do not lie in whole vectors of four have two kernels, one for mean and deviation and
// one for the result, of 512 and 256 threads a row, an element at a time
// (aten/src/ATen/native/cuda/layer_norm_kernel.cu, RowwiseMomentsCUDAKernel and
// LayerNormForwardCUDAKernel). Threads without elements take part in the reduction; each step is a
// trip, Welford's with a division. Set with the even rows of
// calibration/h100-sxm5-nvswitch/measurements/kernels.csv.xz.
double SeparateNormUs(const MemoryParameters& streaming, const GpuPeaks& device,
                      const KernelWork& work) {
  constexpr double kMomentThreads = 512, kMomentCycles = 1220, kMomentStepCycles = 160;
  constexpr double kMomentThread = 79, kMomentElement = 35;  // instructions
  constexpr double kResultThreads = 256, kResultCycles = 2270, kResultStepCycles = 255;
  constexpr double kResultElement = 14;
  const VectorRates rates = VectorRatesOf(device);
  const auto cols = static_cast<double>(work.cols);
  const auto blocks = [&](double threads, double cycles, double step, double instructions) {
    RowBlocks r;
    r.blocks = static_cast<double>(work.rows);
    r.threads = threads;
    r.latency_us = (cycles + step * std::ceil(cols / threads)) / rates.cycles_per_us;
    r.instructions = instructions;
    return BlocksUs(r, device, rates);
  };
  const double moments_us = blocks(kMomentThreads, kMomentCycles, kMomentStepCycles,
                                   kMomentThreads * kMomentThread + cols * kMomentElement);
  const double results_us =
      blocks(kResultThreads, kResultCycles, kResultStepCycles, cols * kResultElement);
  KernelWork moments = work;
  moments.kind = KernelKind::kElementwise;
  moments.written = Bytes();
  KernelWork results = work;
  results.kind = KernelKind::kElementwise;
  return 2 * streaming.base_us +
         SmoothSum(MemoryUs(streaming, device, moments), moments_us, kLoaded) +
         SmoothSum(MemoryUs(streaming, device, results), results_us, kLoaded);
}

}  // namespace

double AnalyticRowsUs(const MemoryParameters& streaming, const GpuPeaks& device,
                      const KernelWork& work) {
  if (work.kind == KernelKind::kSoftmax) return SoftmaxUs(streaming, device, work);
  const VectorRates rates = VectorRatesOf(device);
  const bool of_engine = work.load_elements > 0;
  const bool squares = work.mean_square && !of_engine;
  if (!of_engine && !squares && work.pass == Direction::kForward && work.cols % kNormVector != 0) {
    return SeparateNormUs(streaming, device, work);
  }
  const RowBlocks rows = of_engine ? EngineNorm(work, rates)
                         : squares ? MeanSquareNorm(work, rates)
                                   : LayerNorm(work, rates);
  const double memory_us = MemoryUs(streaming, device, work);
  double blocks_us = BlocksUs(rows, device, rates);
  if (squares) blocks_us = std::max(blocks_us, SecondPassUs(work, device, rates));
  // Of one kernel in a stream of others; what fits to benchmarks' loops do not have.
  const double code_us = LaunchesFetchCode(device) ? 0 : kCodeCycles / rates.cycles_per_us;
  return streaming.base_us + code_us +
         (of_engine ? SmoothMax(memory_us, blocks_us) : SmoothSum(memory_us, blocks_us, kLoaded));
}

}  // namespace foretrace
