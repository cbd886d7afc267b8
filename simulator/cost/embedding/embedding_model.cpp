#include "simulator/cost/embedding/embedding_model.h"

#include <algorithm>
#include <cmath>

#include "simulator/cost/kernel/roofline.h"

namespace foretrace {
namespace {

constexpr double kIndexBytes = 8;
constexpr double kStateBytes = 4;
// Warps that an SM holds for these kernels, of its 64: register use allows about half.
constexpr double kWarpsPerSm = 32;

struct Traffic {
  double lookups = 0, unique = 0, bags = 0, tables = 0;
  double longest = 0;         // mean pooling factor of the table that has the largest
  double gathered_bytes = 0;  // rows read, hits and misses
  double missed_bytes = 0;
  double pooled_bytes = 0;    // outputs, or their gradients
  double unique_bytes = 0;
  double elements = 0;        // lookups * dim
};

double UniqueRows(const TableLookup& t) {
  const double lookups = t.batch * t.pooling;
  if (t.unique_rows > 0) return std::min(t.unique_rows, lookups);
  return EstimatedUniqueRows(t.reuse, lookups, t.rows > 0 ? t.rows : lookups);
}

double RowBytes(const TableLookup& t, DType dtype) {
  return t.dim * static_cast<double>(std::max<int64_t>(ElementSize(dtype), 1));
}

// The rows of all tables share L2; each table gets a part in proportion to its distinct rows' bytes.
Traffic TrafficOf(const GpuPeaks& device, const EmbeddingQuery& query) {
  Traffic total;
  total.tables = static_cast<double>(query.tables.size());
  for (const TableLookup& t : query.tables) {
    const double unique = UniqueRows(t);
    total.lookups += t.batch * t.pooling;
    total.unique += unique;
    total.bags += t.batch;
    total.longest = std::max(total.longest, t.pooling);
    total.elements += t.batch * t.pooling * t.dim;
    total.gathered_bytes += t.batch * t.pooling * RowBytes(t, query.weight_dtype);
    total.pooled_bytes += t.batch * t.dim * 4;  // pooled in fp32
    total.unique_bytes += unique * RowBytes(t, query.weight_dtype);
  }
  const double cache_share =
      total.unique_bytes > 0 ? device.l2_mbytes * 1e6 / total.unique_bytes : 1;
  for (const TableLookup& t : query.tables) {
    const double lookups = t.batch * t.pooling, unique = UniqueRows(t);
    const double hits = HitRate(t.reuse, lookups, unique, unique * cache_share);
    total.missed_bytes += (1 - hits) * lookups * RowBytes(t, query.weight_dtype);
  }
  return total;
}

void FillFeatures(const Traffic& traffic, EmbeddingTime& time) {
  const auto log2 = [](double x) { return std::log2(static_cast<float>(std::max(x, 1e-6))); };
  time.features = {log2(time.kernel_us),
                   log2(traffic.lookups),
                   log2(traffic.unique),
                   log2(traffic.bags),
                   static_cast<float>(traffic.lookups > 0 ? traffic.elements / traffic.lookups : 0),
                   static_cast<float>(time.hit_rate),
                   static_cast<float>(traffic.tables),
                   log2(time.latency_us / std::max(time.kernel_us, 1e-6))};
}

EmbeddingTime Combine(const EmbeddingParameters& p, const GpuPeaks& device,
                      const Traffic& traffic, double dram_bytes, double l2_bytes, double chains,
                      double mean_steps, double longest_steps) {
  EmbeddingTime time;
  time.hit_rate =
      traffic.gathered_bytes > 0 ? 1 - traffic.missed_bytes / traffic.gathered_bytes : 0;
  time.dram_bytes = dram_bytes;
  time.l2_bytes = l2_bytes;
  // A warp walks its bag's lookups one after the other: no kernel is shorter than its longest bag,
  // and beyond what fits on the device warps queue.
  const double waves = chains / (device.sms * kWarpsPerSm);
  time.latency_us = std::max(waves * mean_steps, longest_steps) * p.lookup_us;
  const double bandwidth_us =
      SmoothMax(dram_bytes / (device.dram_gbps * 1e3 * p.dram_efficiency),
                l2_bytes / (p.l2_gbps * 1e3));
  time.kernel_us = p.base_us + SmoothMax(bandwidth_us, time.latency_us);
  FillFeatures(traffic, time);
  return time;
}

}  // namespace

double HitRate(const ReuseFactors& reuse, double lookups, double unique_rows, double cache_rows) {
  if (lookups <= 0 || unique_rows <= 0) return 0;
  if (cache_rows >= unique_rows) return std::max(0.0, 1 - unique_rows / lookups);
  // Counts by bin, scaled so that they add up to the lookups exactly.
  std::array<double, kReuseBins> share = reuse.fractions, count = {};
  double mean = 0, total = 0;
  for (int b = 1; b < kReuseBins; ++b) {
    count[static_cast<size_t>(b)] = ReuseBinCount(b);
    mean += share[static_cast<size_t>(b)] * ReuseBinCount(b);
    total += share[static_cast<size_t>(b)];
  }
  if (total <= 0) {  // no reuse factors: all rows alike
    share = {};
    share[1] = count[1] = mean = total = 1;
  }
  const double scale = lookups / unique_rows / (mean / total);
  // T / lookups: where the cached rows fill the cache. They grow with a falling slope, so that
  // Newton's steps from 0 stay below the root and rise to it.
  double u = 0;
  for (int step = 0; step < 100; ++step) {
    double rows = 0, slope = 0;
    for (size_t b = 1; b < kReuseBins; ++b) {
      if (share[b] <= 0) continue;
      const double c = std::max(count[b] * scale, 1.0);
      const double part = unique_rows * share[b] / total, left = std::exp(-c * u);
      rows += part * (1 - left);
      slope += part * c * left;
    }
    const double change = slope > 0 ? (cache_rows - rows) / slope : 0;
    u += std::max(change, 0.0);
    if (change <= 1e-12 * u) break;
  }
  double hits = 0;
  for (size_t b = 1; b < kReuseBins; ++b) {
    const double c = std::max(count[b] * scale, 1.0);
    hits += unique_rows * share[b] / total * (c - 1) * -std::expm1(-c * u);
  }
  return std::clamp(hits / lookups, 0.0, 1.0);
}

EmbeddingTime EmbeddingForward(const EmbeddingParameters& p, const GpuPeaks& device,
                               const EmbeddingQuery& query) {
  const Traffic t = TrafficOf(device, query);
  const double indices = (t.lookups + t.bags) * kIndexBytes;
  const double steps = t.bags > 0 ? t.lookups / t.bags : 0;
  return Combine(p, device, t, t.missed_bytes + indices + t.pooled_bytes,
                 t.gathered_bytes + indices + t.pooled_bytes, t.bags, steps, t.longest);
}

EmbeddingTime EmbeddingBackward(const EmbeddingParameters& p, const GpuPeaks& device,
                                const EmbeddingQuery& query) {
  const Traffic t = TrafficOf(device, query);
  // Each lookup reads its bag's gradient row; those rows live in L2 when they fit.
  const double gradients = t.elements * 4;
  const double l2 = device.l2_mbytes * 1e6;
  const double gradient_misses =
      t.pooled_bytes > l2 ? gradients * (1 - l2 / t.pooled_bytes) : t.pooled_bytes;
  const bool state = query.fused_update && query.optimizer != OptimizerKind::kSgd;
  const double states = !state ? 0
                        : query.rowwise ? t.unique * kStateBytes
                                        : t.unique_bytes;
  const double moments = query.optimizer == OptimizerKind::kAdam ? 2 : 1;
  const double update = (query.fused_update ? 2 : 1) * t.unique_bytes + 2 * moments * states;
  const double sort = p.sort_bytes * t.lookups;
  const double steps = t.unique > 0 ? t.lookups / t.unique : 0;
  return Combine(p, device, t, gradient_misses + update + sort, gradients + update + sort, t.unique, steps,
                 steps);
}

std::array<double, 3> EmbeddingRangeOf(const EmbeddingQuery& query) {
  std::array<double, 3> range = {};
  for (const TableLookup& t : query.tables) {
    range[0] += t.batch * t.pooling;
    range[1] += t.rows * RowBytes(t, query.weight_dtype);
    range[2] += t.batch;
  }
  return range;
}

bool EmbeddingModel::InRange(const EmbeddingQuery& query) const {
  const auto at = EmbeddingRangeOf(query);
  for (size_t i = 0; i < at.size(); ++i) {
    if (at[i] < lower[i] || at[i] > upper[i]) return false;
  }
  return true;
}

double EmbeddingModel::KernelUs(const GpuPeaks& device, const EmbeddingQuery& query,
                                Direction pass) const {
  const EmbeddingTime time = pass == Direction::kForward
                                 ? EmbeddingForward(parameters, device, query)
                                 : EmbeddingBackward(parameters, device, query);
  if (residual.empty()) return time.kernel_us;
  const double r = residual.Evaluate(time.features);
  return time.kernel_us * std::exp(std::clamp(r, -residual_clip, residual_clip));
}

}  // namespace foretrace
