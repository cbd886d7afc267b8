#include "simulator/cost/kernel/code_fetch.h"

#include <algorithm>

#include "simulator/cost/kernel/gemm_block.h"
#include "simulator/cost/kernel/kernel_names.h"
#include "simulator/cost/kernel/vector_rates.h"

namespace foretrace {
namespace {

// "Dissecting the NVIDIA Volta GPU architecture via microbenchmarking" (2018), table 3.1: 128 KiB
// of instructions and constants for each multiprocessor.
constexpr int64_t kCacheBytes = 128 << 10;
constexpr int64_t kLineBytes = 128;
// Trips to DRAM (ColdStartUs) for each line, of which about a dozen are under way: 3.5 to 4 us for
// a GEMM's kernel.
constexpr double kCyclesPerLine = 50;
constexpr int64_t kUnrolled = 16 << 10, kSeveralLoops = 8 << 10, kOneLoop = 2 << 10;

// GEMMs, and FBGEMM's kernels beside its lookups, which in DLRM-8 take as long beyond their work.
bool IsFetchedAnew(std::string_view kernel, KernelRole role) {
  return role == KernelRole::kMatmul ||
         (role == KernelRole::kUnknown && kernel.find("fbgemm_gpu::") != kernel.npos);
}

}  // namespace

bool FetchesCodeOnDemand(const GpuPeaks& device) {
  return device.accelerator.instructions.fetched_on_demand;
}

bool LaunchesFetchCode(const GpuPeaks& device) {
  const std::string_view chip = device.accelerator.chip;
  return chip.starts_with("GH") || chip.starts_with("GB");
}

int64_t CodeBytes(std::string_view kernel) {
  const KernelRole role = TraitsOfKernel(kernel).role;
  if (role != KernelRole::kMatmul && IsFetchedAnew(kernel, role)) return kUnrolled;
  switch (role) {
    case KernelRole::kMatmul:
      if (!IsThinGemm(kernel)) return kUnrolled;
      return WalksReduction(kernel) ? kSeveralLoops : kOneLoop;
    case KernelRole::kReduction:
    case KernelRole::kSort:
    case KernelRole::kEmbedding:
    case KernelRole::kTransform:
      return kSeveralLoops;
    default:
      return kOneLoop;
  }
}

SimTime CodeFetchTime(const GpuPeaks& device, std::string_view kernel) {
  if (!IsFetchedAnew(kernel, TraitsOfKernel(kernel).role)) return SimTime();
  const double lines = static_cast<double>(CodeBytes(kernel) - kOneLoop) / kLineBytes;
  return SimTime::FromUs(lines * kCyclesPerLine / VectorRatesOf(device).cycles_per_us);
}

bool CodeCache::Run(uint32_t name, int64_t bytes) {
  const auto it = std::ranges::find(recent_, name, &Resident::name);
  const bool resident = it != recent_.end();
  if (resident) {
    std::rotate(it, it + 1, recent_.end());
    return false;
  }
  recent_.push_back({name, bytes});
  bytes_ += bytes;
  size_t displaced = 0;
  while (bytes_ > kCacheBytes && displaced + 1 < recent_.size()) {
    bytes_ -= recent_[displaced++].bytes;
  }
  recent_.erase(recent_.begin(), recent_.begin() + static_cast<std::ptrdiff_t>(displaced));
  return true;
}

}  // namespace foretrace
