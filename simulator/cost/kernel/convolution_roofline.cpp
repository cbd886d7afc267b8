#include "simulator/cost/kernel/convolution_roofline.h"

#include <algorithm>
#include <cmath>

namespace foretrace {
namespace {

constexpr int64_t kFilter = 3;
constexpr double kFusedBlock = 32;      // tiles and filters of a block
constexpr double kFusedProducts = 16;   // of a 4x4 input tile
constexpr double kStagedProducts = 36;  // of a 6x6 input tile
constexpr double kDepthStep = 8;

bool IsWinograd(const KernelWork& work) {
  return work.filter_h == kFilter && work.filter_w == kFilter && work.stride == 1 &&
         work.batch <= 1 && work.images > 0;
}

double RoundedMax(double a, double b) {
  const double a2 = a * a, b2 = b * b;
  return std::sqrt(std::sqrt(a2 * a2 + b2 * b2));
}

}  // namespace

ConvolutionTime ConvolutionRoofline(const GemmParameters& p, const GpuPeaks& device,
                                    Precision precision, const KernelWork& work) {
  ConvolutionTime time;
  time.implicit_gemm = GemmRoofline(p, device, precision, work);
  auto& us = time.algorithm_us;
  us[0] = time.implicit_gemm.kernel_us - p.base_us;
  time.kernel_us = us[0];
  if (IsWinograd(work)) {
    const auto images = static_cast<double>(work.images);
    const double side = std::max(1.0, std::round(std::sqrt(static_cast<double>(work.m) / images)));
    const double small = std::ceil(side / 2), large = std::ceil(side / 4);
    time.small_tiles = images * small * small;
    time.large_tiles = images * large * large;
    time.small_share = side * side / (4 * small * small);
    time.large_share = side * side / (16 * large * large);
    const double peak = device.peak_tflops(precision) * 1e6;
    const double bytes_per_us = device.dram_gbps * 1e3 * p.bandwidth_efficiency;
    const double memory_us = static_cast<double>(work.total_bytes()) / bytes_per_us;
    const double channels = static_cast<double>(work.k) / (kFilter * kFilter);
    const auto filters = static_cast<double>(work.n);
    if (p.fused_efficiency > 0) {
      const double blocks =
          std::ceil(time.small_tiles / kFusedBlock) * std::ceil(filters / kFusedBlock);
      const double flop = 2 * kFusedProducts * kFusedBlock * kFusedBlock *
                          std::ceil(channels / kDepthStep) * kDepthStep;
      const double compute_us =
          std::ceil(blocks / device.sms) * flop / (peak * p.fused_efficiency / device.sms);
      us[1] = RoundedMax(compute_us, memory_us);
    }
    if (p.staged_efficiency > 0) {
      GemmParameters gemm = p;
      gemm.base_us = 0;
      gemm.compute_efficiency = p.staged_efficiency;
      const auto size = static_cast<double>(std::max<int64_t>(ElementSize(work.dtype), 1));
      KernelWork products;
      products.kind = KernelKind::kBatchedGemm;
      products.batch = static_cast<int64_t>(kStagedProducts);
      products.m = static_cast<int64_t>(time.large_tiles);
      products.n = work.n;
      products.k = std::max<int64_t>(static_cast<int64_t>(channels), 1);
      const double inputs = kStagedProducts * channels * time.large_tiles * size;
      const double weights = kStagedProducts * channels * filters * size;
      const double results = kStagedProducts * filters * time.large_tiles * size;
      products.read = Bytes(static_cast<int64_t>(std::min(inputs + weights, 1e18)));
      products.written = Bytes(static_cast<int64_t>(std::min(results, 1e18)));
      us[2] = GemmRoofline(gemm, device, precision, products).kernel_us + memory_us +
              (inputs + weights + results) / bytes_per_us;
    }
  }
  for (const double t : us) {
    if (t > 0) time.kernel_us = std::min(time.kernel_us, t);
  }
  time.kernel_us += p.base_us;
  return time;
}

}  // namespace foretrace
