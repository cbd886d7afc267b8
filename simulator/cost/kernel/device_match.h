#pragma once
// Whether a calibration is of a device: the one rule of all commands.

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "simulator/cost/kernel/gpu_peaks.h"
#include "simulator/cost/kernel/kernel_model.h"

namespace foretrace {

// Kernel models for a device from what was calibrated. A calibration of the same device
// (DeviceMatch) is taken as it is. Of a sibling, tiles, waves and caches carry over to the device's
// own rates and memory, which `notes` then say. Errors: a calibration of another device; `what`
// names it.
absl::StatusOr<std::shared_ptr<const KernelModels>> KernelsOn(
    const GpuPeaks& device, std::shared_ptr<const KernelModels> calibrated, const std::string& what,
    std::vector<std::string>& notes);

// The same of any device: of another chip, what was learnt from the measurements is left behind,
// and the efficiencies alone go on; of GEMMs only where both devices run kernels of one kind
// (SameGemmKernels), else the device's file alone says what they take.
KernelModels CarriedTo(const GpuPeaks& device, const KernelModels& calibrated);

// A sibling with its tensor cores' rates as many times those of the measured device as it keeps up
// more, where both files say what boards keep up (Accelerator::sustained): boards of one chip
// differ by their power, not by their peaks.
GpuPeaks RatesBeside(const GpuPeaks& device, const GpuPeaks& measured);

// The refusal of KernelsOn, for models of other families.
absl::Status CheckDevice(const Accelerator& device, const Accelerator& calibrated,
                         const std::string& what);

// What devices compute with in so many bits, the first that both have.
inline constexpr std::array<RateKind, 1> kHalfRates = {RateKind::kFp16};
inline constexpr std::array<RateKind, 3> kEightBitRates = {RateKind::kFp8, RateKind::kInt8,
                                                           RateKind::kFp16};
inline constexpr std::array<RateKind, 3> kFourBitRates = {RateKind::kFp4, RateKind::kFp8,
                                                          RateKind::kFp16};
// The peak of `to` over that of `from`, of the first of `kinds` that both have; else of float32.
double RateRatio(const GpuPeaks& from, const GpuPeaks& to, std::span<const RateKind> kinds);
// "by the machine files of A and B, memory 1.43 times as fast, ...".
std::string DescribeScale(const GpuPeaks& from, const GpuPeaks& to);

}  // namespace foretrace
