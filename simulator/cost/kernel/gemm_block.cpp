#include "simulator/cost/kernel/gemm_block.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "simulator/base/contains.h"
#include "simulator/cost/kernel/code_fetch.h"
#include "simulator/cost/kernel/name_numbers.h"
#include "simulator/cost/kernel/roofline.h"
#include "simulator/cost/kernel/sizes.h"
#include "simulator/cost/kernel/vector_rates.h"

namespace foretrace {
namespace {

// Of all kernels: launch, and code, arguments, the first operands and the results' first lines,
// each of which waits for memory once. A launch that fetches code ahead takes less
// (dlrm-mixed-b2048, H100, traces/README.md, "Captured": GEMMs of one row take 2.8 us in all).
constexpr double kShortestUs = 2, kShortestAheadUs = 0.75;
constexpr int64_t kTrips = 4;
// Between two steps of the reduction a block waits for its warps and takes its operands out of
// shared memory: a barrier, a load of 30 cycles, tensor instructions of 18 to 33 that depend on
// each other
// ("Dissecting the NVIDIA Ampere architecture through microbenchmarking", 2021), and copies that
// end late. Blocks beside it on the multiprocessor hide that. Set by `trace_diff/control` (A100).
constexpr double kStepCycles = 200;
// Instructions for an operand that is loaded by less than 16 bytes: its address, its predicate, the
// copy. Set by the same.
constexpr double kNarrowInstructions = 16;
// Operands of 2 bytes that lie along the reduction pass through registers into the middle of words
// of shared memory, whose banks they share; gpt2-small-b8-bf16's (H100) take this much longer.
constexpr double kSharedBanks = 1.25;
constexpr int64_t kWidestBytes = 16, kWordBytes = 4;
// Registers of a thread over those that hold its results: 118 to 126 with 64, 230 with 128.
constexpr double kRegistersPerResult = 1.85;
// Of xmma's, which have fewer results a thread: 80 to 90 with 16, 121 with 32.
constexpr double kOwnRegisters = 48, kRegistersOfResult = 2.25, kMostRegisters = 256;
constexpr double kWarp = 32, kSchedulers = 4;  // of a multiprocessor, each with warps of its own
// How far the only block of a multiprocessor multiplies beside such loads, and beside what takes
// its operands out of shared memory where it has but a warp for each of the four schedulers: a warp
// does either. GEMMs by 256 x 128 of control (A100) and bert-base-b4-tf32 (H100) agree on the
// former, GEMMs by 64 x 64 and 128 x 64 of ViT and dlrm-heavy-b1024 (H100) on the latter.
constexpr double kAloneOverlap = 1.5;
constexpr double kResultsOfFourWarps = 128 * 128, kSharedBytesPerCycle = 128;
constexpr double kOverlapPower = 4;  // GemmParameters::overlap_power
// Without tensor cores the threads that multiply also wait for what they load: batches of short
// reductions of dlrm-wide-b8192 (H100); GEMMs of linear (RTX 2080 Ti) took no part and agree.
constexpr double kOverlapOfLanes = 2;
constexpr double kMostBlocks = 1e15;  // that are counted
constexpr int64_t kFp32Depth = 8;     // of kernels whose name states none
// The parts of a result take turns (cutlass/gemm/kernel/gemm.h, kSplitKSerial): a fence, the flag's
// store, its load; then the epilogue reads what is there row by row of its tensor instructions, a
// step after the other: 8 rows of a warp, which has half of the block's and at most 64.
constexpr double kTurnTrips = 3, kEpilogueRows = 8, kWarpRows = 64;
// A thread that walks the reduction takes it in chunks whose loads wait for each other. Set by
// DLRM-8 (V100).
constexpr double kThinCyclesPerElement = 14;

// At most three digits; 0: there is none.
int64_t TakeSize(std::string_view& text) { return TakeNumber(text, 3).value_or(0); }

// CUTLASS numbers blocks in bands of up to eight along the rows, so that those that run side by
// side share operands; blocks that complete a band have no results
// (cutlass/gemm/threadblock/threadblock_swizzle.h, GemmIdentityThreadblockSwizzle).
double InWholeBands(double across) {
  const double band = across >= 6 ? 8 : across >= 3 ? 4 : across;
  return band * std::ceil(across / band);
}

bool IsSide(int64_t x) { return x >= 16 && x <= 512 && x % 8 == 0; }

// Whether a scheduler has 32 lanes, so that whatever else it starts takes the turn of a
// multiplication: 128 a multiprocessor, as GA102, Ada, Hopper and Blackwell have.
bool IssuesOneByOne(const GpuPeaks& device) {
  constexpr double kEnough = 100;
  const VectorRates rates = VectorRatesOf(device);
  return rates.instructions_per_us > kEnough * device.sms * rates.cycles_per_us;
}

// Of the peak. Without tensor cores, instructions that load operands and add up addresses take
// turns with those that multiply: calibration/{v100,a100}-pcie*, where NeuSight's GEMMs gave
// 0.942 and 2.8, 0.905 and 2.7.
double ReachedShare(const GpuPeaks& device, Precision precision, const GemmBlock& block) {
  constexpr double kLargestBlock = 0.92, kIntensity = 2.75;
  // CUTLASS's threads have 8 x 8, of blocks of 256 x 128 twice as many.
  constexpr double kThreadResults = 64, kLargeThreadBlock = 256 * 128;
  KernelWork work;
  work.by_warps = true;
  if (precision != Precision::kFloat32) return WarpInstructionShare(device, work);
  const double rows = Positive(block.rows), cols = Positive(block.cols);
  const double intensity = rows * cols / (rows + cols);
  if (IssuesOneByOne(device)) {
    const double threads = kWarp * Positive(block.warps);
    const double results = block.warps > 0                   ? rows * cols / threads
                           : rows * cols < kLargeThreadBlock ? kThreadResults
                                                             : 2 * kThreadResults;
    return device.boost_tflops(precision) / device.peak_tflops(precision) /
           (1 + kOtherInstructions / std::sqrt(results));
  }
  return kLargestBlock * intensity / (intensity + kIntensity);
}

// What the parts of a split reduction wait for each other, as far as they run at once: what came
// before has taken its turn.
double TurnsUs(const GpuPeaks& device, const BlockedGemm& gemm, double resident, double trip_us) {
  if (!gemm.in_turn) return 0;
  const double at_once = std::floor(device.sms * resident / std::max(gemm.blocks, 1.0));
  const double turns = std::clamp(at_once, 1.0, gemm.split) - 1;
  const double steps = std::min(Positive(gemm.block.rows) / 2, kWarpRows) / kEpilogueRows;
  return turns * (kTurnTrips + steps) * trip_us;
}

// What the warps of one block take for a step that all units do in `multiply_us`: fewer than four
// leave schedulers without work, and on tensor cores four share it two by two, so that each operand
// is taken out of shared memory twice.
double OwnWarpsUs(Precision precision, const BlockedGemm& gemm, const VectorRates& rates,
                  double multiply_us) {
  const double rows = Positive(gemm.block.rows), cols = Positive(gemm.block.cols);
  if (gemm.block.warps > 0) multiply_us *= std::max(kSchedulers / Positive(gemm.block.warps), 1.0);
  if (precision == Precision::kFloat32 || rows * cols > kResultsOfFourWarps) return multiply_us;
  const double bytes =
      2 * (rows + cols) * Positive(gemm.block.depth) * Positive(gemm.element_bytes);
  return SmoothSum(multiply_us, bytes / kSharedBytesPerCycle / rates.cycles_per_us, kAloneOverlap);
}

}  // namespace

GemmBlock XmmaBlockOf(std::string_view name) {
  constexpr std::string_view kSize = "_tilesize", kStage = "_stage";
  const size_t at = name.find(kSize);
  if (at == name.npos) return {};
  std::string_view rest = name.substr(at + kSize.size());
  GemmBlock block;
  if (!TakePair(rest, block.rows, block.cols) || !IsSide(block.rows) || !IsSide(block.cols) ||
      !rest.starts_with('x')) {
    return {};
  }
  rest.remove_prefix(1);
  block.depth = TakeSize(rest);
  if (block.depth == 0 || !rest.starts_with(kStage)) return {};
  rest.remove_prefix(kStage.size());
  block.stages = TakeSize(rest);
  constexpr std::string_view kWarps = "_warpsize";
  int64_t down = 0, across = 0;
  if (!rest.starts_with(kWarps)) return block;
  rest.remove_prefix(kWarps.size());
  if (!TakePair(rest, down, across) || !rest.starts_with('x')) return block;
  rest.remove_prefix(1);
  block.warps = down * across * TakeSize(rest);
  return block;
}

GemmBlock GemmBlockOf(std::string_view name) {
  const bool gemm =
      ContainsAny(name, {"sgemm_", "s884gemm", "s1688gemm", "s16816gemm", "s161616gemm", "h884gemm",
                         "h1688gemm", "h16816gemm", "scudnn_"});
  if (ContainsAny(name, {"sm80_xmma_gemm_"})) return XmmaBlockOf(name);
  if (!gemm || ContainsAny(name, {"winograd", "sm90", "sm100"})) return {};
  for (size_t at = name.find('_'); at != name.npos; at = name.find('_', at + 1)) {
    std::string_view rest = name.substr(at + 1);
    GemmBlock block;
    if (!TakePair(rest, block.rows, block.cols) || !IsSide(block.rows) || !IsSide(block.cols)) {
      continue;
    }
    block.depth = kFp32Depth;
    block.in_bands = ContainsAny(name, {"cutlass"});
    block.along_depth = ContainsAny(name, {"_tn_"});
    if (!rest.starts_with('_')) return block;
    rest.remove_prefix(1);
    constexpr std::string_view kSliced = "sliced1x";  // warps that share a result's reduction
    constexpr std::string_view kStages = "stages_";
    int64_t depth = 0, stages = 0;
    std::string_view stated = rest;  // cuBLAS's say it behind how they load and store
    if (const size_t behind = rest.find(kStages); behind != rest.npos) {
      stated.remove_prefix(behind + kStages.size());
    }
    if (TakePair(stated, depth, stages)) {
      block.depth = depth;
      block.stages = stages;
    } else if (rest.starts_with(kSliced)) {
      rest.remove_prefix(kSliced.size());
      block.depth *= std::max<int64_t>(TakeSize(rest), 1);
    } else if (ContainsAny(name, {"884gemm", "1688gemm", "16816gemm"})) {
      block.depth = 32;  // for tensor cores
    }
    return block;
  }
  return {};
}

double ResidentBlocks(const GpuPeaks& device, const GemmBlock& block, int64_t element_bytes) {
  const OccupancyLimits& limits = device.accelerator.occupancy;
  double resident = limits.blocks > 0 ? limits.blocks : 32;
  const double results = Positive(block.rows) * Positive(block.cols);
  if (limits.registers > 0 && block.warps > 0) {
    const double threads = kWarp * Positive(block.warps);
    const double registers =
        std::min(kOwnRegisters + kRegistersOfResult * results / threads, kMostRegisters);
    resident = std::min(resident, limits.registers / (threads * registers));
  } else if (limits.registers > 0) {
    resident = std::min(resident, limits.registers / (results * kRegistersPerResult));
  }
  const double operands = Positive(block.rows + block.cols) * Positive(block.depth) *
                          Positive(block.stages) * Positive(element_bytes);
  const auto shared = static_cast<double>(limits.shared_memory.count());
  if (block.stages > 0 && shared > 0) resident = std::min(resident, shared / operands);
  return std::max(std::floor(resident), 1.0);
}

BlockedGemm BlockedGemmOf(const GpuPeaks& device, const GemmBlock& block, const KernelWork& work,
                          double waves) {
  BlockedGemm gemm;
  gemm.block = block;
  const double across = std::ceil(Positive(work.n) / Positive(block.rows));
  const double down = std::ceil(Positive(work.m) / Positive(block.cols));
  gemm.blocks = Positive(work.batch) * across * down;
  gemm.filled_rows = Positive(work.n) / across;
  gemm.filled_cols = Positive(work.m) / down;
  gemm.depth = Positive(work.k);
  gemm.element_bytes = ElementSize(work.dtype);
  gemm.load_elements = work.load_elements;
  gemm.read_bytes = static_cast<double>(work.read.count());
  gemm.written_bytes = static_cast<double>(work.written.count());
  const double launched = waves * device.sms * ResidentBlocks(device, block, gemm.element_bytes);
  const double steps = std::max(std::floor(gemm.depth / Positive(block.depth)), 1.0);
  const double whole = gemm.blocks * (block.in_bands ? InWholeBands(across) / across : 1);
  gemm.split = std::clamp(std::round(launched / whole), 1.0, steps);
  return gemm;
}

double GemmStartUs(const GpuPeaks& device) {
  return (LaunchesFetchCode(device) ? kShortestAheadUs : kShortestUs) + ColdStartUs(device, kTrips);
}

double BlockedGemmUs(const GpuPeaks& device, Precision precision, double bandwidth_efficiency,
                     const BlockedGemm& gemm) {
  const GemmBlock& block = gemm.block;
  const VectorRates rates = VectorRatesOf(device);
  const double rows = Positive(block.rows), cols = Positive(block.cols),
               depth = Positive(block.depth);
  const double flop_per_us =
      device.peak_tflops(precision) * 1e6 / device.sms * ReachedShare(device, precision, block);
  const double multiply_us = 2 * rows * cols * depth / flop_per_us;
  double load_us = 0, store_us = 0;
  const int64_t load_bytes = gemm.load_elements * gemm.element_bytes;
  if (precision != Precision::kFloat32 && load_bytes > 0 && load_bytes < kWidestBytes) {
    const double us_of_access =
        kNarrowInstructions * device.sms / rates.integers_per_us / Positive(gemm.load_elements) *
        (block.along_depth && block.stages == 0 && load_bytes < kWordBytes ? kSharedBanks : 1);
    // Threads whose operands lie outside of the matrix do not load them; copies past the registers
    // are issued all the same, and write zeros.
    const double filled_rows = gemm.filled_rows > 0 ? gemm.filled_rows : rows;
    const double filled_cols = gemm.filled_cols > 0 ? gemm.filled_cols : cols;
    const double loaded = block.stages == 0 ? filled_rows + filled_cols : rows + cols;
    load_us = loaded * depth * us_of_access;
    store_us = filled_rows * filled_cols * us_of_access;
  }
  const double wait_us = kStepCycles / rates.cycles_per_us;
  const double trip_us = ColdStartUs(device, 1) - ColdStartUs(device, 0);
  // Operands that are asked for one step ahead alone are waited for.
  constexpr int64_t kDeep = 3;
  const double ahead_us = block.stages < kDeep ? trip_us : 0;
  const double steps = std::ceil(gemm.depth / gemm.split / depth);
  const double resident = ResidentBlocks(device, block, gemm.element_bytes);
  const double blocks = gemm.blocks * gemm.split;
  // A multiprocessor's units, each at its rate for all blocks that it holds; and a block's own
  // steps, one after the other, which the last blocks hide from each other the less the fewer they
  // are.
  const double busy_us = steps * SmoothMax(multiply_us, load_us) + store_us;
  const double alone_us =
      steps * (std::max(SmoothSum(OwnWarpsUs(precision, gemm, rates, multiply_us), load_us,
                                  kAloneOverlap),
                        ahead_us) +
               wait_us) +
      store_us + trip_us;
  const double most = std::ceil(blocks / device.sms);
  const double rounds = std::floor(most / resident);
  const double last_blocks = most - rounds * resident;
  const double blocks_us = rounds * std::max(resident * busy_us, alone_us) +
                           (last_blocks > 0 ? std::max(last_blocks * busy_us, alone_us) : 0);
  // Parts of a split reduction are added in turn: each but the first reads what is there.
  const double bytes_per_us = device.dram_gbps * 1e3 * bandwidth_efficiency;
  const double written_us = gemm.written_bytes * (2 * gemm.split - 1) / bytes_per_us;
  const double memory_us = gemm.read_bytes / bytes_per_us + written_us;
  // What the last wave writes, no other block's arithmetic hides.
  const double last = std::min(device.sms * resident / std::max(blocks, 1.0), 1.0);
  const double compute_us =
      std::max(blocks_us - trip_us,
               DispatchUs(device, static_cast<int64_t>(std::min(blocks, kMostBlocks)))) +
      last * written_us + TurnsUs(device, gemm, resident, trip_us);
  return GemmStartUs(device) +
         SmoothSum(compute_us, memory_us,
                   precision == Precision::kFloat32 ? kOverlapOfLanes : kOverlapPower);
}

bool IsThinGemm(std::string_view name) {
  return ContainsAny(name, {"gemv", "gemmSN", "gemmk1", "dot_kernel"});
}

bool WalksReduction(std::string_view name) { return ContainsAny(name, {"gemmSN"}); }

double ThinGemmUs(const GpuPeaks& device, double bandwidth_efficiency, const KernelWork& work,
                  bool walks) {
  const double walk_us =
      walks ? Positive(work.k) * kThinCyclesPerElement / VectorRatesOf(device).cycles_per_us : 0;
  const double bytes_per_us = device.dram_gbps * 1e3 * bandwidth_efficiency;
  const double memory_us = static_cast<double>(work.total_bytes()) / bytes_per_us;
  return GemmStartUs(device) + SmoothMax(walk_us, memory_us);
}

}  // namespace foretrace
