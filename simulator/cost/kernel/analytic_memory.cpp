#include "simulator/cost/kernel/analytic_memory.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace foretrace {
namespace {

struct ClassCost {
  KernelKind kind;
  double bandwidth_share;  // of what streaming kernels reach
  double latency_us;       // on top of the shortest kernel
  double part_us;          // for each tensor after the first
};

// Latencies are what recorded kernels of DLRM-8 (V100, 2022, traces/README.md) take beyond
// streaming their bytes: a reduction adds up within threads, then over a block in log2 steps with a
// barrier each; a concatenation looks up its source for every tensor. Transposes use about half of
// each 32-byte sector that they touch on one side; their share was set with those of the public
// profile `control` (A100) in view. Other kernels of other GPUs took no part (docs/accuracy.md).
constexpr std::array<ClassCost, 3> kClasses = {{
    {KernelKind::kReduction, 1.0, 4.0, 0.0},
    {KernelKind::kConcat, 1.0, 0.7, 0.33},
    {KernelKind::kTranspose, 0.6, 0.7, 0.0},
}};

// Of the DRAM peak that is left beside refresh and turns between reads and writes. Fits to tensors
// that the cache holds may say more.
constexpr double kDramShare = 0.9;

// Of kernels that only write, for which it never turns: fills of over twice the cache in public
// profiles reach 0.93 on A100 (trace_diff/control), V100 (ns_resolution) and RTX 2080 Ti (resnet).
constexpr double kDramWriteShare = 0.93;

// One round trip to DRAM with the device nearly empty ("Dissecting the NVIDIA Volta GPU
// architecture via microbenchmarking", 2018: 375 to 500 cycles at 1.4 GHz).
constexpr double kRoundTripUs = 0.3;
constexpr double kColumnLatencyUs = 3;  // of a sum down columns, before its loop

// A batch norm has a block of 512 threads for each channel, with 8 bytes under way for each thread
// (cuDNN's bn_*_1C11; aten/src/ATen/native/cuda/Normalization.cuh). Few channels do not fill the
// device: 64 of ResNet-50's reach 8.5 to 10.5 bytes a nanosecond each on the V100, and 10 to 12 on
// the A100 (nccl_parser_config).
constexpr double kChannelThreads = 512, kChannelLoadBytes = 8, kLoadedTripUs = 0.43;
// Between its passes a block waits for its sums and has no loads under way. Set with these and
// two more recordings in view (ns_resolution, resnet on the RTX 2080 Ti).
constexpr double kTwoPassShare = 0.9;
constexpr double kChannelBytesPerUs = kChannelThreads * kChannelLoadBytes / kLoadedTripUs;

// Trips through the loop of a sum down the columns of a row-major matrix, each four loads wide.
// PyTorch's setReduceConfig (aten/native/cuda/Reduce.cuh): up to four columns a thread, blocks of
// 512 threads over that, as wide as a warp if there are columns for it; from 256 rows a thread on,
// blocks share the rows, 16 each, and one of them adds up their parts.
double ColumnSumTrips(const KernelWork& work) {
  constexpr int64_t kUnroll = 4, kWarp = 32, kMostThreads = 512, kShared = 256, kPart = 16;
  const int64_t columns = std::max<int64_t>(work.rows, 1), rows = std::max<int64_t>(work.cols, 1);
  const int64_t vector = columns % 4 == 0 ? 4 : columns % 2 == 0 ? 2 : 1;
  const auto power_below = [](int64_t x) {
    return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(x, 1))));
  };
  const int64_t width = std::min(power_below(columns / vector), kWarp);
  const int64_t height = std::min(power_below(rows), kMostThreads / vector / width);
  int64_t each = rows;
  if (rows >= kPart * height || rows >= kShared) each = (rows + height - 1) / height;
  const bool shared = each >= kShared;
  if (shared) each = 2 * kPart;
  return std::ceil(static_cast<double>(each) / kUnroll);
}

}  // namespace

double AnalyticMemoryUs(const MemoryParameters& streaming, const GpuPeaks& device,
                        const KernelWork& work) {
  if (work.kind == KernelKind::kReduction && work.across_rows) {
    const MemoryTime time = MemoryRoofline(streaming, device, work);
    return time.kernel_us - time.memory_us + kColumnLatencyUs +
           std::max(time.memory_us, ColumnSumTrips(work) * kRoundTripUs);
  }
  MemoryParameters parameters = streaming;
  if (static_cast<double>(work.total_bytes()) > device.l2_mbytes * 1e6) {
    const bool writes = work.kind == KernelKind::kFill && work.read == Bytes();
    parameters.bandwidth_efficiency =
        writes ? kDramWriteShare : std::min(parameters.bandwidth_efficiency, kDramShare);
  }
  if (work.kind == KernelKind::kBatchNorm && work.rows > 0) {
    if (work.read > work.written) parameters.bandwidth_efficiency *= kTwoPassShare;
    const MemoryTime time = MemoryRoofline(parameters, device, work);
    const double blocks_us = static_cast<double>(work.total_bytes()) /
                             (static_cast<double>(work.rows) * kChannelBytesPerUs);
    return time.kernel_us - time.memory_us + std::max(time.memory_us, blocks_us);
  }
  double extra_us = 0;
  for (const ClassCost& cost : kClasses) {
    if (cost.kind != work.kind) continue;
    parameters.bandwidth_efficiency *= cost.bandwidth_share;
    extra_us = cost.latency_us + cost.part_us * static_cast<double>(work.parts - 1);
  }
  return MemoryRoofline(parameters, device, work).kernel_us + extra_us;
}

}  // namespace foretrace
