#include "simulator/calibrate/kernel/row_units.h"

#include <algorithm>

#include "simulator/base/error.h"
#include "simulator/calibrate/kernel/benchmark_operator.h"
#include "simulator/cost/operator/kernel_expander.h"

namespace foretrace {
namespace {

// What the device takes at its peaks, in us: of its fastest arithmetic, whatever the row's, and of
// the row's own.
struct LeastTimes {
  double fastest_us = 0, own_us = 0;
};

LeastTimes LeastTimesOf(const GpuPeaks& device, const KernelWork& work, Precision precision) {
  const double flop = work.flop.count();
  const double memory_us =
      static_cast<double>((work.read + work.written).count()) / device.dram_gbps * 1e-3;
  const double fastest =
      std::max({device.fp32_tflops, device.tf32_tflops, device.fp16_tflops, device.fp8_tflops});
  return {flop / fastest * 1e-6, flop / device.boost_tflops(precision) * 1e-6 + memory_us};
}

}  // namespace

absl::Status CheckKernelTimes(const GpuPeaks& device, std::span<const BenchmarkRow> rows) {
  // Boost clocks, and counts of FLOP that an algorithm saves, stay far below these.
  constexpr double kImplausiblyFast = 3, kImplausiblySlow = 300, kLargeUs = 100;
  size_t large = 0, slow = 0;
  const BenchmarkRow* slowest = nullptr;
  for (const BenchmarkRow& row : rows) {
    if (row.kind != BenchmarkKind::kKernel) continue;
    const auto op = OperatorOfRow(row);
    if (!op.ok()) continue;
    const KernelList& kernels = op->kernels;
    if (kernels.size() != 1) continue;
    const KernelWork& work = kernels[0];
    if (work.kind != KernelKind::kGemm && work.kind != KernelKind::kBatchedGemm) continue;
    const LeastTimes least = LeastTimesOf(device, work, op->precision);
    if (row.time_us * kImplausiblyFast < least.fastest_us) {
      return InvalidInput(
          "line {}: {} takes {:g} us, {:.0f} times faster than {} could: are the times in "
          "milliseconds or seconds, or of another device? time_us takes microseconds",
          row.line, row.op, row.time_us, least.fastest_us / row.time_us, device.name);
    }
    if (least.own_us < kLargeUs) continue;
    ++large;
    if (row.time_us < kImplausiblySlow * least.own_us) continue;
    ++slow;
    slowest = &row;
  }
  constexpr size_t kFew = 3;
  if (large < kFew || slow < large) return absl::OkStatus();
  return InvalidInput(
      "line {}: {} takes {:g} us, and every large one takes more than {:g} times what {} needs at "
      "its peaks: are the times in nanoseconds, or of another device? time_us takes microseconds",
      slowest->line, slowest->op, slowest->time_us, kImplausiblySlow, device.name);
}

}  // namespace foretrace
