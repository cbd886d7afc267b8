#include "simulator/cost/kernel/convolution_roofline.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "simulator/cost/kernel/sizes.h"

namespace foretrace {
namespace {

constexpr int64_t kFilter = 3;
constexpr double kFusedFilters = 32;  // of a block
constexpr double kFusedTiles = 32;    // of a block
constexpr double kFusedGemms = 16;    // of a 4x4 input tile
constexpr double kStagedGemms = 36;   // of a 6x6 input tile
constexpr double kStagedImages = 16;
constexpr double kDepthStep = 8;
constexpr double kOverlapPower = 4;       // how compute and memory time of a block add up
constexpr double kBlockArea = 128 * 128;  // of GemmParameters::block_us

struct Tile {
  double rows, cols;
};
constexpr std::array<Tile, 3> kImplicitTiles = {{{128, 128}, {128, 64}, {128, 32}}};

// Rates that all algorithms share.
class Device {
 public:
  Device(const GemmParameters& p, const GpuPeaks& device, Precision precision)
      : p_(p),
        sms_(device.sms),
        sm_flop_per_us_(device.peak_tflops(precision) * 1e6 / device.sms),
        bytes_per_us_(device.dram_gbps * 1e3 * p.bandwidth_efficiency) {}

  double MemoryUs(double bytes) const { return bytes / bytes_per_us_; }
  // Full waves of blocks of `flop` at the efficiency, `fill_us` more for each wave.
  double WavesUs(double blocks, double flop, double efficiency, double fill_us) const {
    return std::ceil(blocks / sms_) * (flop / (sm_flop_per_us_ * efficiency) + fill_us);
  }
  // Of `batch` GEMMs of m x n over k.
  double TilesUs(Tile tile, double batch, double m, double n, double k, double efficiency,
                 double block_us) const {
    const double area = tile.rows * tile.cols, intensity = area / (tile.rows + tile.cols);
    const double flop = 2 * area * std::ceil(k / kDepthStep) * kDepthStep;
    return WavesUs(batch * std::ceil(m / tile.rows) * std::ceil(n / tile.cols), flop,
                   efficiency * intensity / (intensity + p_.tile_intensity),
                   block_us * area / kBlockArea);
  }

 private:
  const GemmParameters& p_;
  double sms_, sm_flop_per_us_, bytes_per_us_;
};

// What Winograd's algorithms see of a convolution.
struct Tiled {
  double images = 1, channels = 1, filters = 1, side = 1, size = 4;
  double results() const { return images * side * side; }
};

Tiled TiledOf(const KernelWork& work) {
  constexpr double kFilterArea = kFilter * kFilter;
  const double m = Positive(work.m), n = Positive(work.n), k = Positive(work.k);
  const double images = Positive(work.images), size = Positive(ElementSize(work.dtype));
  const double pixels = work.weight_gradient ? k : m;
  const double side = std::max(1.0, std::round(std::sqrt(pixels / images)));
  if (work.weight_gradient) return {images, std::max(n / kFilterArea, 1.0), m, side, size};
  return {images, std::max(k / kFilterArea, 1.0), n, side, size};
}

void AddFused(const GemmParameters& p, const GpuPeaks& gpu, const Device& device,
              const Tiled& shape, ConvolutionTime& time) {
  if (gpu.accelerator.winograd.fused.empty()) return;
  double patches = HUGE_VAL;
  for (const auto& [images, rows, cols] : gpu.accelerator.winograd.fused) {
    patches =
        std::min(patches, std::ceil(shape.images / images) * std::ceil(shape.side / 2 / rows) *
                              std::ceil(shape.side / 2 / cols));
  }
  time.fused_blocks = patches * std::ceil(shape.filters / kFusedFilters);
  time.fused_share = shape.results() / (patches * kFusedTiles * 4);
  if (p.fused_efficiency <= 0) return;
  const double flop = 2 * kFusedGemms * kFusedTiles * kFusedFilters *
                      std::ceil(shape.channels / kDepthStep) * kDepthStep;
  const double compute_us = device.WavesUs(time.fused_blocks, flop, p.fused_efficiency, p.block_us);
  const double transformed =
      (kFilter * kFilter + kFusedGemms) * shape.channels * shape.filters * shape.size;
  time.algorithm_us[1] =
      SmoothSum(compute_us, time.memory_us, kOverlapPower) + device.MemoryUs(transformed);
}

// The GEMMs of the weights' gradient split their long sum over tiles, and those in other
// precisions have other tiles: as GEMMs choose.
double GemmsUs(const GemmParameters& p, const GpuPeaks& gpu, Precision precision,
               const KernelWork& work, const Tiled& shape, double tiles) {
  GemmParameters gemm = p;
  gemm.base_us = 0;
  gemm.compute_efficiency = p.staged_efficiency;
  const auto whole = [](double x) {
    return std::max<int64_t>(static_cast<int64_t>(std::min(x, 1e18)), 1);
  };
  KernelWork gemms;
  gemms.kind = KernelKind::kBatchedGemm;
  gemms.batch = static_cast<int64_t>(kStagedGemms);
  gemms.m = whole(work.weight_gradient ? shape.filters : tiles);
  gemms.n = whole(work.weight_gradient ? shape.channels : shape.filters);
  gemms.k = whole(work.weight_gradient ? tiles : shape.channels);
  const double bytes = kStagedGemms * shape.size;
  const double inputs = shape.channels * tiles, weights = shape.channels * shape.filters,
               results = shape.filters * tiles;
  const double written = work.weight_gradient ? weights : results;
  gemms.read = Bytes(whole(bytes * (inputs + weights + results - written)));
  gemms.written = Bytes(whole(bytes * written));
  return GemmRoofline(gemm, gpu, precision, gemms).kernel_us;
}

void AddStaged(const GemmParameters& p, const GpuPeaks& gpu, const Device& device,
               Precision precision, const KernelWork& work, const Tiled& shape,
               ConvolutionTime& time) {
  const double large = std::ceil(shape.side / 4);
  time.staged_rows = std::ceil(shape.images / kStagedImages) * kStagedImages * large * large;
  time.staged_share = shape.results() / (time.staged_rows * 16);
  if (p.staged_efficiency <= 0 || gpu.accelerator.winograd.gemm.empty()) return;
  const double traffic_us = device.MemoryUs(
      kStagedGemms * shape.size *
      (shape.channels * shape.filters + (shape.channels + shape.filters) * time.staged_rows));
  double gemms_us = HUGE_VAL;
  if (work.weight_gradient || precision != Precision::kFloat32) {
    gemms_us = GemmsUs(p, gpu, precision, work, shape, time.staged_rows);
  } else {
    for (const auto& [rows, cols] : gpu.accelerator.winograd.gemm) {
      const double compute_us =
          device.TilesUs({rows, cols}, kStagedGemms, time.staged_rows, shape.filters,
                         shape.channels, p.staged_efficiency, /*block_us=*/0);
      gemms_us = std::min(gemms_us, SmoothSum(compute_us, traffic_us, kOverlapPower));
    }
  }
  time.algorithm_us[2] = gemms_us + time.memory_us + traffic_us;
}

// The best of the algorithms, or their average in log: see GemmParameters::choice_spread.
double Chosen(const std::array<double, 3>& algorithm_us, double spread) {
  double best = HUGE_VAL;
  for (const double us : algorithm_us) {
    if (us > 0) best = std::min(best, us);
  }
  if (spread <= 0) return best;
  double weights = 0, sum = 0;
  for (const double us : algorithm_us) {
    if (us <= 0) continue;
    const double beyond = std::log(us / best), weight = std::exp(-beyond / spread);
    weights += weight;
    sum += weight * beyond;
  }
  return best * std::exp(sum / weights);
}

}  // namespace

bool IsWinograd(const KernelWork& work) {
  return work.filter_h == kFilter && work.filter_w == kFilter && work.stride == 1 &&
         work.batch <= 1 && work.images > 0;
}

ConvolutionTime ConvolutionRoofline(const GemmParameters& p, const GpuPeaks& gpu,
                                    Precision precision, const KernelWork& work) {
  const Device device(p, gpu, precision);
  ConvolutionTime time;
  time.memory_us = device.MemoryUs(static_cast<double>(work.total_bytes()));
  // Gradients of the weights split their long reduction, as GEMMs do.
  if (precision == Precision::kFloat32 && !work.weight_gradient) {
    for (size_t i = 0; i < kImplicitTiles.size(); ++i) {
      time.implicit_us[i] =
          device.TilesUs(kImplicitTiles[i], Positive(work.batch), Positive(work.m),
                         Positive(work.n), Positive(work.k), p.compute_efficiency, p.block_us);
    }
    time.algorithm_us[0] =
        SmoothSum(*std::ranges::min_element(time.implicit_us), time.memory_us, kOverlapPower);
  } else {
    time.algorithm_us[0] = GemmRoofline(p, gpu, precision, work).kernel_us - p.base_us;
  }
  if (IsWinograd(work)) {
    const Tiled shape = TiledOf(work);
    if (!work.weight_gradient) AddFused(p, gpu, device, shape, time);
    AddStaged(p, gpu, device, precision, work, shape, time);
  }
  time.kernel_us = Chosen(time.algorithm_us, p.algorithm_spread) + p.base_us;
  return time;
}

}  // namespace foretrace
