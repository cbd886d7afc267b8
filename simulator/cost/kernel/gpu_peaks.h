#pragma once
// What a datasheet says of a GPU; the scale that fitted efficiencies are relative to.

#include <optional>
#include <string>
#include <string_view>

#include "simulator/base/dtype.h"

namespace foretrace {

// The arithmetic that a GEMM-like kernel runs in. Storage may differ: tf32 operands are fp32.
enum class Precision : unsigned char { kFloat32, kTensorFloat32, kHalf, kCount };
std::string_view Name(Precision precision);
// The arithmetic for a dtype. fp32 GEMMs may run on tensor cores: `allow_tf32` is the framework's
// setting, visible in kernel names.
Precision PrecisionOf(DType dtype, bool allow_tf32);

struct GpuPeaks {
  std::string name;
  double sms = 0;  // streaming multiprocessors
  double threads_per_sm = 2048;
  double dram_gbps = 0;    // GB/s
  double l2_mbytes = 0;    // that one SM's data can occupy: half on split caches
  double fp32_tflops = 0;  // dense, without tensor cores
  double tf32_tflops = 0;  // dense tensor cores; 0: none
  double fp16_tflops = 0;  // dense tensor cores, or doubled fp32 rate

  // TFLOP/s; the fp32 rate where the device has no units of that kind.
  double peak_tflops(Precision precision) const;
};

// By a platform's name ("a100-pcie-40gb", "a100-sxm4-nvswitch") or a driver's ("Tesla
// V100-SXM2-32GB"); nullopt for devices that the list does not have.
std::optional<GpuPeaks> FindGpuPeaks(std::string_view platform_or_device);

// Boards of one chip differ in memory and clocks. How kernels use tiles, waves and caches carries
// over between them.
bool IsSameChip(const GpuPeaks& a, const GpuPeaks& b);

}  // namespace foretrace
