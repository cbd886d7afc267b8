#include "simulator/cost/kernel/roofline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "simulator/cost/kernel/attention_roofline.h"
#include "simulator/cost/kernel/vector_rates.h"

namespace foretrace {
namespace {

struct Tile {
  double rows, cols;
};
// Output tiles of the BLAS kernels; which one a library picks is not modelled, it is taken to
// pick well.
constexpr std::array<Tile, 8> kTiles = {
    {{128, 256}, {128, 128}, {128, 64}, {64, 128}, {64, 64}, {32, 64}, {32, 32}, {256, 128}}};
constexpr size_t kFullPrecisionTiles = 7;  // 256 x 128 needs the accumulators of tensor cores
constexpr double kNarrowestTile = 32;      // the narrowest side of these
constexpr size_t kNarrowTiles = 2;         // that are narrower (GemmParameters::narrowest_tile)
constexpr size_t kSplits = 5;              // 1, 2, 4, 8, 16 parts of the reduction
constexpr double kSmallestSplit = 256;     // of the reduction
constexpr double kReductionBlock = 8;      // reductions run in multiples of it

constexpr double kTileArea = 128 * 128;  // of GemmParameters::wave_us
constexpr int64_t kWidestBytes = 16;     // that a thread accesses at once

// The time that a library's choice among tiles takes: see GemmParameters::choice_spread.
class TileChoice {
 public:
  explicit TileChoice(double spread) : spread_(spread) {}
  void Add(double us) {
    if (us > 0) times_[count_++] = std::log(us);
  }
  double Us(double best) const {
    const double log_best = std::log(best);
    double weights = 0, sum = 0;
    for (size_t i = 0; i < count_; ++i) {
      const double weight = std::exp((log_best - times_[i]) / spread_);
      weights += weight;
      sum += weight * (times_[i] - log_best);
    }
    return weights > 0 ? best * std::exp(sum / weights) : best;
  }

 private:
  double spread_;
  std::array<double, (kTiles.size() + kNarrowTiles) * kSplits> times_;
  size_t count_ = 0;
};

// What a library has for a GEMM.
class Tiles {
 public:
  Tiles(const GemmParameters& p, Precision precision, double m, double n) {
    if (p.tile_rows > 0) {
      Add({p.tile_rows, p.tile_cols});
      return;
    }
    const size_t among = precision == Precision::kFloat32 ? kFullPrecisionTiles : kTiles.size();
    for (size_t t = 0; t < among; ++t) Add(kTiles[t]);
    const double least = std::min(m, n);
    if (p.narrowest_tile <= 0 || least >= kNarrowestTile) return;
    const double side = std::ceil(least / p.narrowest_tile) * p.narrowest_tile;
    for (const double other : {64.0, 128.0}) Add(m <= n ? Tile{side, other} : Tile{other, side});
  }
  std::span<const Tile> all() const { return std::span(tiles_).first(count_); }

 private:
  void Add(Tile tile) { tiles_[count_++] = tile; }

  std::array<Tile, kTiles.size() + kNarrowTiles> tiles_;
  size_t count_ = 0;
};

// Whether libraries run it by kernels without tiles: a matrix times a vector (cuBLAS's gemv).
bool HasVector(const KernelWork& work, Precision precision) {
  return precision == Precision::kFloat32 && IsGemm(work.kind) && std::min(work.m, work.n) <= 1;
}

// What blocks spend on operands and results that are not aligned to 16 bytes, the widest access of
// a thread: each access takes instructions of its own (pointer, predicate, load, store), which
// tensor cores wait for, since registers leave a multiprocessor next to no other warps. From 4
// bytes on operands are copied past the registers (cp.async); narrower ones pass through them into
// shared memory. Where all operands do that anyway (Volta, Turing), kernels have registers for
// other warps, which multiply meanwhile: a share is left, DeepBench's V100's (half precision). Rows
// of x and W lie along k, those of the result along n; tiles are 128 x 128.
double NarrowAccessUs(const GpuPeaks& device, Precision precision, const KernelWork& work) {
  constexpr int64_t kCopiedBytes = 4;
  constexpr double kCopied = 8, kThroughRegisters = 16, kTile = 128, kHiddenElsewhere = 0.2;
  if (precision == Precision::kFloat32 || !IsGemm(work.kind)) return 0;
  const int64_t bytes = AccessBytes(work);
  if (bytes >= kWidestBytes) return 0;
  const int64_t elements = std::max<int64_t>(bytes / ElementSize(work.dtype), 1);
  const auto real = [](int64_t x) { return static_cast<double>(std::max<int64_t>(x, 1)); };
  const double m = real(work.m), n = real(work.n), k = real(work.k);
  const double loaded = k * (m * std::ceil(n / kTile) + n * std::ceil(m / kTile));
  const double accesses = real(work.batch) * (loaded + m * n) / real(elements) *
                          (CopiesPastRegisters(device) ? 1 : kHiddenElsewhere);
  return InstructionUs(device, accesses * (bytes < kCopiedBytes ? kThroughRegisters : kCopied));
}

// Of GemmParameters::reduction_step_us.
double StepElements(Precision precision, const KernelWork& work) {
  if (precision == Precision::kFloat32) return kReductionBlock;
  return std::max(static_cast<double>(kWidestBytes / std::max<int64_t>(ElementSize(work.dtype), 1)),
                  1.0);
}

}  // namespace

int64_t AccessBytes(const KernelWork& work) {
  const int64_t sizes = work.n | work.k;
  const int64_t elements = work.load_elements > 0 ? work.load_elements : sizes & -sizes;
  return std::clamp<int64_t>(std::min(elements, kWidestBytes) * ElementSize(work.dtype), 1,
                             kWidestBytes);
}

bool IsGemm(KernelKind kind) {
  return kind == KernelKind::kGemm || kind == KernelKind::kBatchedGemm;
}

double SmoothSum(double a, double b, double power) {
  if (power == 4) {
    const double a2 = a * a, b2 = b * b;
    return std::sqrt(std::sqrt(a2 * a2 + b2 * b2));
  }
  const double high = std::max(a, b), low = std::min(a, b);
  if (high <= 0) return 0;
  return high * std::pow(1 + std::pow(low / high, power), 1 / power);
}

double SmoothMax(double a, double b) {
  const double high = std::max(a, b), low = std::min(a, b);
  if (high <= 0) return 0;
  double r = low / high;
  r *= r;
  r *= r;
  r *= r;
  return high * std::sqrt(std::sqrt(std::sqrt(1 + r)));
}

double Measurement::Observed(double kernel_us, int64_t order) const {
  const double x = static_cast<double>(order) / 1000;
  return SmoothMax(floor_us, overhead_us + kernel_us) + (drift_us + drift_growth_us * x) * x;
}

bool CopiesPastRegisters(const GpuPeaks& device) {
  return device.has_tensor_cores(Precision::kTensorFloat32);
}

double WarpInstructionShare(const GpuPeaks& device, const KernelWork& work) {
  return work.by_warps ? device.accelerator.instructions.warp_gemms : 1;
}

GemmTime GemmRoofline(const GemmParameters& p, const GpuPeaks& device, Precision precision,
                      const KernelWork& work) {
  if (work.kind == KernelKind::kAttention) return AttentionRoofline(p, device, precision, work);
  const double m = static_cast<double>(std::max<int64_t>(work.m, 1));
  const double n = static_cast<double>(std::max<int64_t>(work.n, 1));
  const double k = static_cast<double>(std::max<int64_t>(work.k, 1));
  const double batch = static_cast<double>(std::max<int64_t>(work.batch, 1));
  const double sm_flop_per_us =
      device.peak_tflops(precision) * 1e6 * p.compute_efficiency / device.sms;
  const double bytes_per_us = device.dram_gbps * 1e3;
  const double step_elements = StepElements(precision, work);
  GemmTime best;
  best.compute_us = HUGE_VAL;
  TileChoice choice(p.choice_spread);
  const Tiles having(p, precision, m, n);
  const std::span<const Tile> tiles = having.all();
  for (size_t t = 0; t < tiles.size(); ++t) {
    const auto [rows, cols] = tiles[t];
    const double intensity = rows * cols / (rows + cols);
    const double rate = sm_flop_per_us * intensity / (intensity + p.tile_intensity);
    const double blocks = batch * std::ceil(m / rows) * std::ceil(n / cols);
    const double tile_flop = 2 * rows * cols;
    for (int split = 1; split <= 1 << (kSplits - 1); split *= 2) {
      // Splitting the reduction only helps while the device is not full.
      if (split > 1 && (k < kSmallestSplit * split || blocks * split > 2 * device.sms)) break;
      if (split > 1 && work.block_scaled) break;  // DeepGEMM's kernels split none
      // Nor do cuDNN's, but for gradients of filters.
      if (split > 1 && work.kind == KernelKind::kConvolution && !work.weight_gradient) break;
      const double waves = blocks * split / device.sms;
      const double depth = std::ceil(k / split / kReductionBlock) * kReductionBlock;
      const double full = std::ceil(waves);
      double us =
          (full + p.partial_wave * (std::max(waves, 1.0) - full)) * tile_flop * depth / rate +
          p.wave_us * full * rows * cols / kTileArea;
      if (p.reduction_step_us > 0) us = std::max(us, p.reduction_step_us * depth / step_elements);
      if (split > 1) {  // a second kernel adds the parts
        us += 2 + (split + 1) * static_cast<double>(work.written.count()) / bytes_per_us;
      }
      if (p.choice_spread > 0) choice.Add(us);
      if (us < best.compute_us) {
        best.compute_us = us;
        best.tile = static_cast<int>(t);
        best.split = split;
        best.waves = waves;
      }
    }
  }
  if (p.choice_spread > 0) best.compute_us = choice.Us(best.compute_us);
  if (HasVector(work, precision)) {
    best.compute_us = 2 * m * n * k * batch / (sm_flop_per_us * device.sms);
  }
  best.compute_us += NarrowAccessUs(device, precision, work);
  best.memory_us =
      static_cast<double>(work.total_bytes()) / (bytes_per_us * p.bandwidth_efficiency);
  best.kernel_us = p.base_us + SmoothSum(best.compute_us, best.memory_us, p.overlap_power);
  return best;
}

bool IsRowWise(const KernelWork& work) {
  return (work.kind == KernelKind::kLayerNorm || work.kind == KernelKind::kSoftmax) &&
         work.rows > 0 && work.cols > 0;
}

bool KeepsRowsInRegisters(const KernelWork& work) {
  return work.kind == KernelKind::kSoftmax && work.cols <= 1024;
}

// Launch shapes of PyTorch's kernels: vectorized_layer_norm (128 threads a row, 4 elements a
// load), softmax_warp_forward (a warp a row, to 1,024 columns) and cunn_SoftMaxForward (a block a
// row; the remainder of the vectorised loop is walked one element at a time).
RowGeometry GeometryOf(const GpuPeaks& device, const KernelWork& work) {
  RowGeometry g;
  const double rows = static_cast<double>(work.rows), cols = static_cast<double>(work.cols);
  if (work.kind == KernelKind::kLayerNorm) {
    g.steps = std::ceil(cols / (4 * g.threads));
  } else if (KeepsRowsInRegisters(work)) {
    double padded = 1;
    while (padded < cols) padded *= 2;
    const double warp = std::min(padded, 32.0);
    g.rows_per_block = g.threads / warp * (padded <= 128 ? 2 : 1);
  } else {
    const double most = std::min(cols / 4, 1024.0);
    g.threads = 1;
    while (g.threads < most / 2) g.threads *= 2;
    g.threads = std::max(g.threads, 32.0);
    const double vectors = std::floor(cols / (4 * g.threads));
    g.steps = vectors + std::ceil((cols - 4 * g.threads * vectors) / g.threads);
  }
  const double blocks = std::ceil(rows / g.rows_per_block);
  const double per_sm = std::min(device.resident_blocks(g.threads), 16.0);
  g.waves = blocks / (per_sm * device.sms);
  const double row_bytes = static_cast<double>(std::max(work.read, work.written).count()) / rows;
  g.resident_bytes = std::min(blocks, per_sm * device.sms) * g.rows_per_block * row_bytes;
  return g;
}

MemoryTime MemoryRoofline(const MemoryParameters& p, const GpuPeaks& device,
                          const KernelWork& work) {
  MemoryTime time;
  const double bytes_per_us = device.dram_gbps * 1e3 * p.bandwidth_efficiency;
  double bytes = static_cast<double>(work.total_bytes());
  if (!IsRowWise(work)) {
    time.memory_us = bytes / bytes_per_us;
    time.kernel_us = p.base_us * static_cast<double>(work.launches) + time.memory_us;
    return time;
  }
  time.geometry = GeometryOf(device, work);
  const RowGeometry& g = time.geometry;
  if (!KeepsRowsInRegisters(work)) {
    // Share of the later passes that goes to DRAM: a smooth step where the rows in flight fill L2.
    const double fill = g.resident_bytes / (p.l2_share * device.l2_mbytes * 1e6);
    const double f2 = fill * fill, f6 = f2 * f2 * f2;
    bytes += static_cast<double>(work.read_again.count()) * f6 / (1 + f6);
  }
  time.memory_us = bytes / bytes_per_us;
  const double lifetime = (p.row_us + p.step_us * g.steps) * g.threads / 128;
  time.kernel_us = p.base_us + SmoothMax(time.memory_us, std::max(g.waves, 1.0) * lifetime) +
                   p.fill_rows * lifetime * std::min(g.waves, 1.0);
  return time;
}

}  // namespace foretrace
