#include "simulator/cost/kernel/analytic_memory.h"

#include <algorithm>

#include "simulator/cost/kernel/analytic_reductions.h"
#include "simulator/cost/kernel/code_fetch.h"
#include "simulator/cost/kernel/vector_rates.h"

namespace foretrace {
namespace {

// What recorded kernels of DLRM-8 (V100, 2022, traces/README.md) take beyond streaming their bytes:
// a concatenation of tensors that do not lie in one piece looks up its source for every further
// tensor. Transposes use about half of each 32-byte sector that they touch on one side; their share
// was set with those of the public profile `control` (A100) in view. Other kernels of other GPUs
// took no part (docs/accuracy.md).
constexpr double kConcatUs = 0.7, kPieceUs = 0.33;
constexpr double kTransposeShare = 0.6, kTransposeUs = 0.7;

// Of the DRAM peak that is left beside refresh and turns between reads and writes. Fits to tensors
// that the cache holds may say more.
constexpr double kDramShare = 0.9;

// Of kernels that only write, for which it never turns: fills of over twice the cache in public
// profiles reach 0.93 on A100 (trace_diff/control), V100 (ns_resolution) and RTX 2080 Ti (resnet).
constexpr double kDramWriteShare = 0.93;

// Of element-wise kernels in jobs, with two reads for a write. A fifth of the cache still has what
// kernels before wrote. Additions and products of 100 MB to 6 GB of captured jobs (H100,
// traces/README.md).
constexpr double kJobShare = 0.92, kJobCached = 0.2;

// A batch norm has a block of 512 threads for each channel, with 8 bytes under way for each thread
// (cuDNN's bn_*_1C11; aten/src/ATen/native/cuda/Normalization.cuh). Few channels do not fill the
// device: 64 of ResNet-50's reach 8.5 to 10.5 bytes a nanosecond each on the V100, and 10 to 12 on
// the A100 (nccl_parser_config).
constexpr double kChannelThreads = 512, kChannelLoadBytes = 8, kLoadedTripUs = 0.43;
// Those for Hopper have 16 bytes under way, of two tensors less: resnet50-b64-tf32's (H100,
// traces/README.md, "Captured") reach 19.5 and 13 bytes a nanosecond each.
constexpr double kWideLoadBytes = 16, kWidePairBytes = 11;
// Between its passes a block waits for its sums and has no loads under way. Set with these and
// two more recordings in view (ns_resolution, resnet on the RTX 2080 Ti).
constexpr double kTwoPassShare = 0.9;

}  // namespace

MemoryParameters BeyondCache(const MemoryParameters& streaming, const GpuPeaks& device,
                             const KernelWork& work) {
  MemoryParameters parameters = streaming;
  if (static_cast<double>(work.total_bytes()) <= device.l2_mbytes * 1e6) return parameters;
  const bool writes = work.kind == KernelKind::kFill && work.read == Bytes();
  parameters.bandwidth_efficiency =
      writes ? kDramWriteShare : std::min(parameters.bandwidth_efficiency, kDramShare);
  return parameters;
}

double PastCacheUs(const GpuPeaks& device, const KernelWork& work) {
  const double cache = device.l2_mbytes * 1e6, bytes = static_cast<double>(work.total_bytes());
  if (bytes <= cache) return 0;
  return (bytes - kJobCached * cache) / (device.dram_gbps * 1e3 * kJobShare);
}

double WithCachedInputUs(const GpuPeaks& device, const KernelWork& work, double moved_us) {
  // An input of 0.8 times what one partition holds is there, one of 1.2 times no longer; then the
  // cache gives and takes 21 bytes a cycle and multiprocessor (norms' second pass,
  // analytic_rows.cpp, takes the same). clamp_min of ResNet-50 on V100, A100 and H100
  // (kineto-tb_plugin, nccl_parser_config, resnet50-b64-tf32; traces/README.md): 18, 22 and 22
  // bytes.
  constexpr double kGone = 1.2, kFading = 0.4, kBytesPerCycle = 21;
  const double elements = static_cast<double>(work.written.count()) /
                          static_cast<double>(std::max<int64_t>(ElementSize(work.dtype), 1));
  const bool passes_on =
      work.read == work.written && work.instructions <= 0 && work.flop.count() <= 2 * elements;
  if (!passes_on || device.l2_mbytes <= 0) return moved_us;
  const double held = static_cast<double>(work.read.count()) / (device.l2_mbytes * 1e6);
  const double share = std::clamp((kGone - held) / kFading, 0.0, 1.0);
  const double cached_us = static_cast<double>(work.total_bytes()) /
                           (kBytesPerCycle * device.sms * VectorRatesOf(device).cycles_per_us);
  return share * std::min(cached_us, moved_us) + (1 - share) * moved_us;
}

double AnalyticMemoryUs(const MemoryParameters& streaming, const GpuPeaks& device,
                        const KernelWork& work) {
  if (work.kind == KernelKind::kReduction) return AnalyticReductionUs(streaming, device, work);
  MemoryParameters parameters = BeyondCache(streaming, device, work);
  parameters.bandwidth_efficiency *= work.bandwidth_share;
  if (work.kind == KernelKind::kBatchNorm && work.rows > 0) {
    if (work.read > work.written) parameters.bandwidth_efficiency *= kTwoPassShare;
    const MemoryTime time = MemoryRoofline(parameters, device, work);
    const bool wide = LaunchesFetchCode(device);
    const double loaded = !wide                              ? kChannelLoadBytes
                          : work.pass == Direction::kForward ? kWideLoadBytes
                                                             : kWidePairBytes;
    const double bytes_per_us = kChannelThreads * loaded / kLoadedTripUs;
    const double blocks_us =
        static_cast<double>(work.total_bytes()) / (static_cast<double>(work.rows) * bytes_per_us);
    return time.kernel_us - time.memory_us + std::max(time.memory_us, blocks_us);
  }
  if (work.kind == KernelKind::kConcat) {
    const double pieces_us =
        kConcatUs + kPieceUs * static_cast<double>(std::max<int64_t>(work.parts, 1) - 1);
    const MemoryTime time = MemoryRoofline(parameters, device, work);
    const double least_us = work.scattered > 0 ? ScatteredUs(device, work.scattered) : 0;
    return time.kernel_us + pieces_us + std::max(least_us - time.memory_us, 0.0);
  }
  double extra_us = 0;
  if (work.kind == KernelKind::kTranspose) {
    parameters.bandwidth_efficiency *= kTransposeShare;
    extra_us = kTransposeUs;
  }
  return MemoryRoofline(parameters, device, work).kernel_us + extra_us;
}

}  // namespace foretrace
