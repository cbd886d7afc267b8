#include "simulator/cost/kernel/device_match.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/cost/kernel/analytic_gemm.h"

namespace foretrace {

absl::StatusOr<std::shared_ptr<const KernelModels>> KernelsOn(
    const GpuPeaks& device, std::shared_ptr<const KernelModels> calibrated, const std::string& what,
    std::vector<std::string>& notes) {
  const GpuPeaks& of = calibrated->device();
  FORETRACE_RETURN_IF_ERROR(CheckDevice(device.accelerator, of.accelerator, what));
  if (Compare(device.accelerator, of.accelerator) == DeviceMatch::kSame) return calibrated;
  std::vector<std::string> differ;
  const auto compare = [&](double own, double other, const char* of_it) {
    if (fmt::format("{:.0f}", own) == fmt::format("{:.0f}", other)) return;
    differ.push_back(fmt::format("{:.0f} instead of {:.0f} {}", own, other, of_it));
  };
  compare(device.dram_gbps, of.dram_gbps, "GB/s of memory");
  compare(device.peak_tflops(Precision::kHalf), of.peak_tflops(Precision::kHalf),
          "TFLOP/s in 16 bits");
  notes.push_back(fmt::format(
      "kernels: calibrated on {} and carried over to {}, another board of the same "
      "chip{}",
      of.name, device.name, differ.empty() ? "" : fmt::format(" ({})", fmt::join(differ, ", "))));
  return std::make_shared<const KernelModels>(CarriedTo(device, *calibrated));
}

GpuPeaks RatesBeside(const GpuPeaks& device, const GpuPeaks& measured) {
  GpuPeaks rates = device;
  const auto compare = [&](Precision precision, double measured_rate, double& rate) {
    const double here = device.sustained_tflops(precision);
    const double there = measured.sustained_tflops(precision);
    if (here > 0 && there > 0) rate = measured_rate * here / there;
  };
  compare(Precision::kHalf, measured.fp16_tflops, rates.fp16_tflops);
  compare(Precision::kFloat8, measured.fp8_tflops, rates.fp8_tflops);
  return rates;
}

KernelModels CarriedTo(const GpuPeaks& device, const KernelModels& calibrated) {
  const bool sibling =
      Compare(device.accelerator, calibrated.device().accelerator) != DeviceMatch::kOther;
  const auto measured_on = std::make_shared<const GpuPeaks>(calibrated.device());
  const auto carried_to = std::make_shared<const GpuPeaks>(RatesBeside(device, *measured_on));
  std::vector<KernelModel> models(calibrated.models().begin(), calibrated.models().end());
  for (KernelModel& model : models) {
    if (sibling) {
      model.measured_on = measured_on;
      model.carried_to = carried_to;
      continue;
    }
    model.residual = TreeEnsemble();
    model.residual_clip = 0;
    model.kriging = ShapeKriging();
    model.measured = MeasuredShapes();
    model.of_other_kernels =
        IsGemm(model.key.kind) &&
        !SameGemmKernels(device, calibrated.device(), model.key.precision, model.key.kind);
  }
  return KernelModels(device, std::move(models));
}

double RateRatio(const GpuPeaks& from, const GpuPeaks& to, std::span<const RateKind> kinds) {
  for (const RateKind kind : kinds) {
    const double here = from.accelerator.peak(kind).per_second();
    const double there = to.accelerator.peak(kind).per_second();
    if (here > 0 && there > 0) return there / here;
  }
  return to.fp32_tflops / from.fp32_tflops;
}

std::string DescribeScale(const GpuPeaks& from, const GpuPeaks& to) {
  return fmt::format(
      "by the machine files of {} and {}, memory {:.2f} times as fast, arithmetic in 16 bits "
      "{:.2f}, "
      "in 8 {:.2f}, in float32 {:.2f} times",
      from.name, to.name, to.dram_gbps / from.dram_gbps, RateRatio(from, to, kHalfRates),
      RateRatio(from, to, kEightBitRates),
      to.peak_tflops(Precision::kFloat32) / from.peak_tflops(Precision::kFloat32));
}

absl::Status CheckDevice(const Accelerator& device, const Accelerator& calibrated,
                         const std::string& what) {
  if (Compare(device, calibrated) != DeviceMatch::kOther) return absl::OkStatus();
  return InvalidInput(
      "{} is of {}, but the device to predict for is {}; name a calibration of that device or of a "
      "board of its chip ({}), or none: then kernels are modelled from the device's file",
      what, calibrated.name, device.name, device.chip);
}

}  // namespace foretrace
