#include "simulator/cost/kernel/kernel_features.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "simulator/cost/kernel/convolution_roofline.h"
#include "simulator/cost/kernel/gemm_tiles.h"

namespace foretrace {
namespace {

// Leading dimensions of large powers of two meet in the same cache sets and memory channels, small
// ones decide the width of loads.
constexpr int64_t kStrideAlignment = 4096, kRowAlignment = 256, kChannelAlignment = 64;

float Log2(double x) { return std::log2(static_cast<float>(std::clamp(x, 1e-6, 1e9))); }

// Share of the last wave's blocks that are busy; below one wave, the share of the device.
float WaveShare(double waves) {
  return static_cast<float>(waves > 1 ? waves / std::ceil(waves) : waves);
}

// log2 of the largest power of two, at most `most`, that divides x.
float Alignment(int64_t x, int64_t most) {
  return static_cast<float>(std::countr_zero(static_cast<uint64_t>(x | most)));
}

double Blocks(double m, double n, double rows, double cols) {
  return std::ceil(m / rows) * std::ceil(n / cols);
}

float TileShare(double m, double n, double rows, double cols) {
  return static_cast<float>(m * n / (Blocks(m, n, rows, cols) * rows * cols));
}

KernelPoint MatmulPoint(const GemmTime& time, const GpuPeaks& device, const KernelWork& work) {
  const auto at_least_one = [](int64_t x) { return static_cast<double>(std::max<int64_t>(x, 1)); };
  const double m = at_least_one(work.m), n = at_least_one(work.n), k = at_least_one(work.k);
  const double b = at_least_one(work.batch);
  const auto share = [&](double rows, double cols) {
    return WaveShare(b * Blocks(m, n, rows, cols) / device.sms);
  };
  KernelPoint point;
  point.kernel_us = time.kernel_us;
  point.features = {Log2(time.kernel_us),
                    Log2(time.compute_us / time.memory_us),
                    Log2(m),
                    Log2(n),
                    Log2(k),
                    Log2(b),
                    static_cast<float>(time.tile * 8 + std::countr_zero(unsigned(time.split))),
                    Log2(time.waves),
                    WaveShare(time.waves),
                    share(128, 128),
                    TileShare(m, n, 128, 128),
                    TileShare(m, n, 64, 64),
                    TileShare(m, n, 32, 32),
                    Alignment(work.k, kStrideAlignment),
                    Alignment(work.n, kStrideAlignment),
                    Alignment(work.m, kRowAlignment),
                    share(256, 128),
                    Log2(b * Blocks(m, n, 256, 128)),
                    share(128, 256),
                    share(64, 128),
                    share(128, 64),
                    share(64, 64)};
  return point;
}

KernelPoint ConvolutionPoint(const ConvolutionTime& time, const GpuPeaks& device,
                             const KernelWork& work) {
  const auto& us = time.algorithm_us;
  // What cannot be used is infinitely slow.
  const auto ratio = [&](size_t a, size_t b) {
    if (us[a] <= 0) return 30.0f;
    return us[b] <= 0 ? -30.0f : Log2(us[a] / us[b]);
  };
  const auto m = static_cast<double>(std::max<int64_t>(work.m, 1));
  const auto n = static_cast<double>(std::max<int64_t>(work.n, 1));
  const auto share = [&](double rows, double cols) {
    return WaveShare(Blocks(m, n, rows, cols) / device.sms);
  };
  const auto staged = [&](double rows, double cols) {
    return 36 * Blocks(time.staged_rows, n, rows, cols) / device.sms;
  };
  const double fused = time.fused_blocks / device.sms;
  const auto& implicit = time.implicit_us;
  const bool tiles = implicit[0] > 0;
  KernelPoint point;
  point.kernel_us = time.kernel_us;
  point.features = {Log2(time.kernel_us),
                    ratio(1, 0),
                    ratio(2, 0),
                    ratio(2, 1),
                    Log2(m),
                    Log2(n),
                    Log2(static_cast<double>(work.k)),
                    Log2(static_cast<double>(work.channels)),
                    Log2(static_cast<double>(work.images)),
                    static_cast<float>(work.image),
                    static_cast<float>(work.filter_h),
                    static_cast<float>(work.stride),
                    static_cast<float>(time.fused_share),
                    static_cast<float>(time.staged_share),
                    WaveShare(fused),
                    Log2(fused),
                    WaveShare(staged(32, 128)),
                    WaveShare(staged(64, 64)),
                    WaveShare(staged(128, 128)),
                    Log2(staged(128, 128)),
                    Log2(time.memory_us / time.kernel_us),
                    Alignment(work.channels, kChannelAlignment),
                    Alignment(work.n, kChannelAlignment),
                    share(128, 128),
                    share(128, 64),
                    tiles ? Log2(implicit[1] / implicit[0]) : 0.0f,
                    tiles ? Log2(implicit[2] / implicit[0]) : 0.0f};
  return point;
}

// Blocks go over queries, by head or by the group of heads that share keys, and where there are
// few, over keys.
KernelPoint AttentionPoint(const GemmTime& time, const GpuPeaks& device, const KernelWork& work) {
  const auto real = [](int64_t x) { return static_cast<double>(std::max<int64_t>(x, 1)); };
  const double m = real(work.m), n = real(work.n), k = real(work.k), batch = real(work.batch);
  const double shared = KeyHeads(work);
  const double group = batch / shared;
  const auto by_group = [&](double tile) {
    return shared * std::ceil(m * group / tile) / device.sms;
  };
  const auto by_keys = [&](double tile) { return by_group(64) * std::ceil(n / tile); };
  KernelPoint point;
  point.kernel_us = time.kernel_us;
  point.features = {Log2(time.kernel_us),
                    Log2(time.compute_us / time.memory_us),
                    Log2(m),
                    Log2(n),
                    Log2(k),
                    Log2(batch),
                    Log2(shared),
                    Log2(group),
                    Log2(time.waves),
                    WaveShare(time.waves),
                    WaveShare(batch * std::ceil(m / 64) / device.sms),
                    Log2(by_group(128)),
                    WaveShare(by_group(128)),
                    WaveShare(by_group(64)),
                    Log2(by_keys(256)),
                    WaveShare(by_keys(256)),
                    WaveShare(by_keys(1024)),
                    Alignment(work.m, kRowAlignment),
                    Alignment(work.n, kRowAlignment)};
  return point;
}
constexpr int kAttentionFeatureCount = 19;

}  // namespace

void AddInterpolatedFeatures(const GpuPeaks& device, const KernelWork& work, double log_residual,
                             KernelPoint& point) {
  const auto real = [](int64_t x) { return static_cast<double>(std::max<int64_t>(x, 1)); };
  const double m = real(work.m), n = real(work.n), k = real(work.k);
  auto next = static_cast<size_t>(GemmFeatureCount(work.kind));
  const auto add = [&](float x) { point.features[next++] = x; };
  add(static_cast<float>(log_residual));
  for (const auto& [rows, cols] : kGemmTiles) {
    const double waves = std::ceil(Blocks(m, n, rows, cols) / device.sms);
    add(Log2(waves * device.sms * rows * cols / (m * n)));
  }
  for (const auto& [rows, cols] : kSplitTiles) {
    const double blocks = Blocks(m, n, rows, cols);
    const double parts = std::max(std::floor(device.sms / blocks), 1.0);
    add(Log2(parts));
    add(Log2(k / parts));
    add(static_cast<float>(blocks * parts / device.sms));
  }
  const double cached = device.l2_mbytes * 1e6 / real(ElementSize(work.dtype));
  for (const double elements : {n * k, m * k, m * n}) add(Log2(elements / cached));
  for (const double tile : {32.0, 256.0}) add(TileShare(m, 1, tile, 1));
  add(std::log2(static_cast<float>(m * n * k)));
  add(Log2(n * k / (n + k)));
  add(Log2(k / n));
}

KernelPoint GemmPoint(const GemmParameters& parameters, const GpuPeaks& device, Precision precision,
                      const KernelWork& work) {
  if (work.kind == KernelKind::kConvolution) {
    return ConvolutionPoint(ConvolutionRoofline(parameters, device, precision, work), device, work);
  }
  const GemmTime time = GemmRoofline(parameters, device, precision, work);
  return work.kind == KernelKind::kAttention ? AttentionPoint(time, device, work)
                                             : MatmulPoint(time, device, work);
}

double KeyHeads(const KernelWork& work) {
  const auto real = [](int64_t x) { return static_cast<double>(std::max<int64_t>(x, 1)); };
  const bool forward = work.pass == Direction::kForward;
  const double elements = static_cast<double>((forward ? work.read : work.written).count()) /
                          real(ElementSize(work.dtype));
  const double batch = real(work.batch), k = real(work.k);
  // Keys and values are what is neither query nor, backward, its gradient.
  return std::clamp((elements - batch * real(work.m) * k) / (2 * real(work.n) * k), 1.0, batch);
}

int GemmFeatureCount(KernelKind kind) {
  if (kind == KernelKind::kAttention) return kAttentionFeatureCount;
  return kind == KernelKind::kConvolution ? 27 : 22;
}

KernelPoint MemoryPoint(const MemoryParameters& parameters, const GpuPeaks& device,
                        const KernelWork& work) {
  const MemoryTime time = MemoryRoofline(parameters, device, work);
  KernelPoint point;
  point.kernel_us = time.kernel_us;
  // Sizes saturate where kernels have reached their asymptote (20 waves, 500 us, 4,096 columns), so
  // that larger ones are not split apart by what little the training data say of them.
  KernelFeatures& x = point.features;
  x[0] = std::min(Log2(time.kernel_us), 9.0f);
  if (!IsRowWise(work)) return point;
  const RowGeometry& g = time.geometry;
  x[1] = Log2(std::min(g.waves, 20.0));
  x[2] = WaveShare(g.waves);
  const double per_step = g.threads / g.rows_per_block;
  x[3] = static_cast<float>(static_cast<double>(work.cols) /
                            (std::ceil(static_cast<double>(work.cols) / per_step) * per_step));
  x[4] = Alignment(work.cols, 32);
  x[5] = Log2(static_cast<double>(std::min<int64_t>(work.cols, 4096)));
  x[6] = static_cast<float>(std::min(g.steps, 9.0));
  return point;
}

}  // namespace foretrace
