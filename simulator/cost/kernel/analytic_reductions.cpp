#include "simulator/cost/kernel/analytic_reductions.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "simulator/cost/kernel/analytic_memory.h"
#include "simulator/cost/kernel/code_fetch.h"
#include "simulator/cost/kernel/vector_rates.h"

namespace foretrace {
namespace {

// In cycles. A trip to memory with the device nearly empty ("Dissecting the NVIDIA Volta GPU
// architecture via microbenchmarking", 2018: 375 to 500). The start of a sum: arguments and the
// first load. Down columns a block then adds up its rows in shared memory behind barriers; where
// blocks share a result it puts its parts down, fences, counts itself, and the last one reads what
// all have put down, a trip for each row of its threads. Along rows a warp adds up by shuffles.
// Set with the sums of dlrm-heavy-b1024, dlrm-mixed-b512-device and resnet50-b64-tf32 in view
// (H100, traces/README.md, "Captured"), which DLRM-8's (V100) confirm but for the code.
constexpr double kTrip = 440, kPartTrip = 530, kStart = 1500, kShareParts = 7000;
constexpr double kRowStart = 2740;
constexpr double kThreadInstructions = 30;  // of a thread beside its loads
// Down columns a thread divides its place by the dimensions that are left for where it reads, and
// again for where it writes, four results each; an element is converted and added. Set with the
// sums of grouped heads of llama3-8b-l4-s8192-b1-none and llama3-70b-l1-s4096-b2-none, of 4 and 8
// each.
constexpr double kColumnsInstructions = 196, kColumnElementInstructions = 8.75;
// Where code is fetched on demand: the lines of the loop, the shuffles, the stores.
constexpr double kCode = 3200;
// Before Ampere the four loads of a step down columns come one after the other, from L2 (the same
// source: 193 cycles; "Dissecting the NVidia Turing T4 GPU via microbenchmarking", 2019: 188), and
// less code is fetched beside them. Set with the sums of linear (RTX 2080 Ti, 32 steps) and DLRM-8
// (V100, 4 steps).
constexpr double kStepInTurn = 4 * 193, kCodeInTurn = 1800;

constexpr int64_t kUnroll = 4;        // loads of a thread that are under way together
constexpr int64_t kVectorBytes = 16;  // or one of so many, of rows
constexpr int64_t kWarp = 32, kMostThreads = 512, kShared = 256, kPart = 16;

int64_t PowerBelow(int64_t x) {
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(x, 1))));
}

int64_t Quotient(int64_t x, int64_t parts) { return x / parts + (x % parts == 0 ? 0 : 1); }

// How PyTorch spreads a sum (aten/src/ATen/native/cuda/Reduce.cuh, setReduceConfig).
struct Spread {
  int64_t threads = kMostThreads;  // of a block
  double blocks = 1;               // of the results, each with all of their elements or a part
  int64_t parts = 1;               // blocks that share a result
  int64_t each = 1;                // elements of a thread
  int64_t height = 1;              // rows of threads of a block
  int64_t readers = 1;             // threads that add up the parts of one result
  int64_t vector = 1;              // results of a thread
};

// From 256 elements a thread on, blocks share a result, 16 elements each, as far as the device has
// threads for them.
void Share(const GpuPeaks& device, Spread& spread) {
  const double resident = device.sms * device.resident_blocks(static_cast<double>(spread.threads));
  if (spread.each < kShared || spread.blocks > resident) return;
  const auto filling = static_cast<int64_t>(std::ceil(resident / spread.blocks));
  spread.parts = std::max({std::min(filling, Quotient(spread.each, kPart)),
                           Quotient(spread.each, kShared), int64_t{1}});
  spread.each = Quotient(spread.each, spread.parts);
}

// Down the columns of a row-major matrix: up to four columns a thread, blocks as wide as a warp if
// there are columns for it.
Spread DownColumns(const GpuPeaks& device, const KernelWork& work) {
  const int64_t columns = std::max<int64_t>(work.rows, 1), rows = std::max<int64_t>(work.cols, 1);
  const int64_t vector = columns % 4 == 0 ? 4 : columns % 2 == 0 ? 2 : 1;
  Spread spread;
  spread.vector = vector;
  spread.threads = kMostThreads / vector;
  const int64_t width = std::min(PowerBelow(columns / vector), kWarp);
  spread.height = std::min(PowerBelow(rows), spread.threads / width);
  spread.each = rows;
  const bool together = rows >= kPart * spread.height || rows >= kShared;
  if (together) spread.each = Quotient(rows, spread.height);
  const int64_t results = width * vector * (together ? 1 : spread.height);
  spread.blocks = std::ceil(static_cast<double>(columns) / static_cast<double>(results));
  spread.readers = spread.height;
  Share(device, spread);
  return spread;
}

// Along rows: a warp each, or as many threads as few rows leave.
Spread AlongRows(const GpuPeaks& device, const KernelWork& work) {
  const int64_t rows = std::max<int64_t>(work.rows, 1), cols = std::max<int64_t>(work.cols, 1);
  Spread spread;
  spread.height = std::min(PowerBelow(rows), kMostThreads / std::min(PowerBelow(cols), kWarp));
  const int64_t width = std::min(PowerBelow(cols), kMostThreads / spread.height);
  spread.threads = width * spread.height;
  spread.each = Quotient(cols, width);
  const bool together =
      spread.height > 1 && (spread.each >= kPart * spread.height || spread.each >= kShared);
  if (together) spread.each = Quotient(spread.each, spread.height);
  spread.blocks =
      std::ceil(static_cast<double>(rows) / static_cast<double>(together ? 1 : spread.height));
  spread.readers = together ? spread.threads : width;
  Share(device, spread);
  return spread;
}

int64_t LoadedTogether(DType dtype) {
  return std::max(kVectorBytes / std::max<int64_t>(ElementSize(dtype), 1), kUnroll);
}

}  // namespace

double AnalyticReductionUs(const MemoryParameters& streaming, const GpuPeaks& device,
                           const KernelWork& work) {
  const VectorRates rates = VectorRatesOf(device);
  const MemoryTime memory = MemoryRoofline(BeyondCache(streaming, device, work), device, work);
  const Spread spread = work.across_rows ? DownColumns(device, work) : AlongRows(device, work);
  const int64_t together = work.across_rows         ? kUnroll
                           : work.load_elements > 0 ? work.load_elements
                                                    : LoadedTogether(work.dtype);
  const bool in_turn = work.across_rows && !CopiesPastRegisters(device);
  const double loop =
      static_cast<double>(Quotient(spread.each, together)) * (in_turn ? kStepInTurn : kTrip);
  double start = !FetchesCodeOnDemand(device) ? 0 : in_turn ? kCodeInTurn : kCode;
  if (spread.parts > 1) {
    start += kShareParts + static_cast<double>(Quotient(spread.parts, spread.readers)) * kPartTrip;
  }
  double of_blocks = loop;
  if (work.across_rows) {
    start += kStart;
  } else {
    const double resident = device.resident_blocks(static_cast<double>(spread.threads));
    const double blocks = spread.blocks * static_cast<double>(spread.parts) / device.sms;
    constexpr double kLanes = 64;  // for integers
    const double issue = static_cast<double>(spread.threads) * kThreadInstructions / kLanes;
    of_blocks = std::ceil(blocks / resident) * (kRowStart + loop) + blocks * issue;
  }
  // Blocks along rows wait for each of their few loads, the longer the busier the memory is.
  constexpr double kLoaded = 2;
  const double us = of_blocks / rates.cycles_per_us;
  const double threads =
      spread.blocks * static_cast<double>(spread.parts) * static_cast<double>(spread.threads);
  const double issue_us = InstructionUs(
      device,
      threads * (kColumnsInstructions +
                 kColumnElementInstructions * static_cast<double>(spread.vector * spread.each)));
  const double moved_us = work.across_rows ? SmoothMax(std::max(memory.memory_us, us), issue_us)
                                           : SmoothSum(memory.memory_us, us, kLoaded);
  return memory.kernel_us - memory.memory_us + start / rates.cycles_per_us + moved_us;
}

}  // namespace foretrace
