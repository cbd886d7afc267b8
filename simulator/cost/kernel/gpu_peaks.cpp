#include "simulator/cost/kernel/gpu_peaks.h"

#include <array>

#include "simulator/base/enum_names.h"

namespace foretrace {
namespace {

struct Entry {
  std::string_view platform;  // prefix of a platform's name, lower case
  std::string_view device;    // part of the driver's device name, lower case
  GpuPeaks spec;
};

// NVIDIA's datasheets (A100, H100, H200, V100, Quadro GV100, P100, T4, L4, GeForce RTX 2080 Ti
// whitepaper); peaks are dense. The A100's and H100's L2 is two partitions, each caching for its
// half of the SMs. More specific entries come first.
const std::array<Entry, 13>& Entries() {
  static const std::array<Entry, 13> kEntries = {{
      {"a100-pcie-80gb", "a100 80gb pcie", {"a100-pcie-80gb", 108, 2048, 1935, 20, 19.5, 156, 312}},
      {"a100-pcie", "a100-pcie", {"a100-pcie-40gb", 108, 2048, 1555, 20, 19.5, 156, 312}},
      {"a100-sxm4-40gb", "a100-pg509", {"a100-sxm4-40gb", 108, 2048, 1555, 20, 19.5, 156, 312}},
      {"a100-sxm4-40gb", "a100-sxm4-40gb", {"a100-sxm4-40gb", 108, 2048, 1555, 20, 19.5, 156, 312}},
      {"a100-sxm4", "a100-sxm4", {"a100-sxm4-80gb", 108, 2048, 2039, 20, 19.5, 156, 312}},
      {"h100-sxm5", "h100 80gb hbm3", {"h100-sxm5-80gb", 132, 2048, 3350, 25, 66.9, 494.7, 989.4}},
      {"h200", "h200", {"h200-sxm5", 132, 2048, 4800, 25, 66.9, 494.7, 989.4}},
      {"v100-sxm2", "v100-sxm2", {"v100-sxm2", 80, 2048, 900, 6, 15.7, 0, 125}},
      {"v100-pcie", "v100-pcie", {"v100-pcie", 80, 2048, 900, 6, 14.1, 0, 112}},
      {"gv100", "gv100", {"quadro-gv100", 80, 2048, 870, 6, 14.8, 0, 118.5}},
      {"p100", "p100", {"p100-pcie", 56, 2048, 732, 4, 9.5, 0, 19}},
      {"t4", "tesla t4", {"t4", 40, 1024, 320, 4, 8.1, 0, 65}},
      {"rtx-2080-ti", "rtx 2080 ti", {"rtx-2080-ti", 68, 1024, 616, 5.5, 13.45, 0, 53.8}},
  }};
  return kEntries;
}

}  // namespace

std::string_view Name(Precision precision) {
  static constexpr std::array<std::string_view, 3> kNames = {"float32", "tf32", "half"};
  return EnumName(kNames, precision);
}

Precision PrecisionOf(DType dtype, bool allow_tf32) {
  switch (dtype) {
    case DType::kFloat16:
    case DType::kBFloat16:
      return Precision::kHalf;
    case DType::kFloat32:
      return allow_tf32 ? Precision::kTensorFloat32 : Precision::kFloat32;
    default:
      return Precision::kFloat32;
  }
}

double GpuPeaks::peak_tflops(Precision precision) const {
  const double tensor = precision == Precision::kHalf            ? fp16_tflops
                        : precision == Precision::kTensorFloat32 ? tf32_tflops
                                                                 : 0;
  return tensor > 0 ? tensor : fp32_tflops;
}

std::optional<GpuPeaks> FindGpuPeaks(std::string_view platform_or_device) {
  const std::string key = LowerCase(platform_or_device);
  for (const Entry& entry : Entries()) {
    if (key.starts_with(entry.platform) || key.find(entry.device) != std::string::npos) {
      return entry.spec;
    }
  }
  return std::nullopt;
}

bool IsSameChip(const GpuPeaks& a, const GpuPeaks& b) {
  return a.sms == b.sms && a.threads_per_sm == b.threads_per_sm && a.l2_mbytes == b.l2_mbytes;
}

}  // namespace foretrace
