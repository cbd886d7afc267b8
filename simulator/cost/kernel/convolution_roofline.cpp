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

double RoundedMax(double a, double b) {
  const double a2 = a * a, b2 = b * b;
  return std::sqrt(std::sqrt(a2 * a2 + b2 * b2));
}

// What Winograd's algorithms see of a convolution.
struct Tiled {
  double channels = 0, filters = 0, side = 1;
};

Tiled TiledOf(const KernelWork& work) {
  constexpr double kFilterArea = kFilter * kFilter;
  const auto m = static_cast<double>(work.m), n = static_cast<double>(work.n);
  const auto k = static_cast<double>(work.k), images = static_cast<double>(work.images);
  const double pixels = work.weight_gradient ? k : m;
  const double side = std::max(1.0, std::round(std::sqrt(pixels / images)));
  if (work.weight_gradient) return {n / kFilterArea, m, side};
  return {k / kFilterArea, n, side};
}

double FusedUs(const GemmParameters& p, const GpuPeaks& device, Precision precision,
               const Tiled& shape, double tiles, double memory_us) {
  const double blocks = std::ceil(tiles / kFusedBlock) * std::ceil(shape.filters / kFusedBlock);
  const double flop = 2 * kFusedProducts * kFusedBlock * kFusedBlock *
                      std::ceil(shape.channels / kDepthStep) * kDepthStep;
  const double rate = device.peak_tflops(precision) * 1e6 * p.fused_efficiency / device.sms;
  return RoundedMax(std::ceil(blocks / device.sms) * flop / rate, memory_us);
}

double StagedUs(const GemmParameters& p, const GpuPeaks& device, Precision precision,
                const KernelWork& work, const Tiled& shape, double tiles, double memory_us) {
  GemmParameters gemm = p;
  gemm.base_us = 0;
  gemm.compute_efficiency = p.staged_efficiency;
  const auto size = static_cast<double>(std::max<int64_t>(ElementSize(work.dtype), 1));
  const double inputs = kStagedProducts * shape.channels * tiles * size;
  const double weights = kStagedProducts * shape.channels * shape.filters * size;
  const double results = kStagedProducts * shape.filters * tiles * size;
  const auto whole = [](double x) {
    return std::max<int64_t>(static_cast<int64_t>(std::min(x, 1e18)), 1);
  };
  KernelWork products;
  products.kind = KernelKind::kBatchedGemm;
  products.batch = static_cast<int64_t>(kStagedProducts);
  if (work.weight_gradient) {
    products.m = whole(shape.filters);
    products.n = whole(shape.channels);
    products.k = whole(tiles);
  } else {
    products.m = whole(tiles);
    products.n = whole(shape.filters);
    products.k = whole(shape.channels);
  }
  const double written = work.weight_gradient ? weights : results;
  products.read = Bytes(whole(inputs + weights + results - written));
  products.written = Bytes(whole(written));
  const double bytes_per_us = device.dram_gbps * 1e3 * p.bandwidth_efficiency;
  return GemmRoofline(gemm, device, precision, products).kernel_us + memory_us +
         (inputs + weights + results) / bytes_per_us;
}

}  // namespace

bool IsWinograd(const KernelWork& work) {
  return work.filter_h == kFilter && work.filter_w == kFilter && work.stride == 1 &&
         work.batch <= 1 && work.images > 0;
}

ConvolutionTime ConvolutionRoofline(const GemmParameters& p, const GpuPeaks& device,
                                    Precision precision, const KernelWork& work) {
  ConvolutionTime time;
  time.implicit_gemm = GemmRoofline(p, device, precision, work);
  auto& us = time.algorithm_us;
  us[0] = time.implicit_gemm.kernel_us - p.base_us;
  time.kernel_us = us[0];
  if (IsWinograd(work)) {
    const Tiled shape = TiledOf(work);
    const auto images = static_cast<double>(work.images);
    const double small = std::ceil(shape.side / 2), large = std::ceil(shape.side / 4);
    time.small_tiles = images * small * small;
    time.large_tiles = images * large * large;
    time.small_share = shape.side * shape.side / (4 * small * small);
    time.large_share = shape.side * shape.side / (16 * large * large);
    const double bytes_per_us = device.dram_gbps * 1e3 * p.bandwidth_efficiency;
    const double memory_us = static_cast<double>(work.total_bytes()) / bytes_per_us;
    if (p.fused_efficiency > 0 && !work.weight_gradient) {
      us[1] = FusedUs(p, device, precision, shape, time.small_tiles, memory_us);
    }
    if (p.staged_efficiency > 0) {
      us[2] = StagedUs(p, device, precision, work, shape, time.large_tiles, memory_us);
    }
  }
  for (const double t : us) {
    if (t > 0) time.kernel_us = std::min(time.kernel_us, t);
  }
  time.kernel_us += p.base_us;
  return time;
}

}  // namespace foretrace
