#include "simulator/cost/embedding/embedding_model.h"

#include <algorithm>
#include <cmath>

#include "simulator/base/enum_names.h"
#include "simulator/cost/kernel/roofline.h"

namespace foretrace {
namespace {

constexpr RealBytes kIndex(8);
constexpr RealBytes kState(4);
constexpr RealBytes kGradient(4);  // gradients are fp32
// Warps that an SM holds for these kernels, of its 64: register use allows about half.
constexpr double kWarpsPerSm = 32;
// Clocks of all multiprocessors in a second, of the device that TypicalParameters' l2_gbps is of.
constexpr double kTypicalClocks = 108 * 1.41e9;

double UniqueRows(const TableLookup& t) {
  const double lookups = t.batch * t.pooling;
  if (t.unique_rows > 0) return std::min(t.unique_rows, lookups);
  return EstimatedUniqueRows(t.reuse, lookups, t.rows > 0 ? t.rows : lookups);
}

RealBytes RowBytes(const TableLookup& t, DType dtype) {
  return t.dim * RealBytes(Bytes(std::max<int64_t>(ElementSize(dtype), 1)));
}

// Bytes moved, and chains of dependent steps, each walked by one warp.
struct Work {
  RealBytes dram, l2;
  double chains = 0, mean_steps = 0, longest_steps = 0;
};

Work ForwardWork(const EmbeddingParameters& p, const EmbeddingQuery& query,
                 const EmbeddingTraffic& t) {
  const RealBytes indices = (t.lookups + t.bags) * kIndex;
  const double mean = t.bags > 0 ? t.lookups / t.bags : 0;
  const double longest =
      query.mean_lengths ? std::min(t.longest * p.length_skew, t.longest * t.tables) : t.longest;
  return {t.missed_bytes + indices + t.pooled_bytes, t.gathered_bytes + indices + t.pooled_bytes,
          t.bags, mean, longest};
}

Work BackwardWork(const GpuPeaks& device, const EmbeddingQuery& query, const EmbeddingTraffic& t) {
  // Each lookup reads its bag's gradient row; those rows live in L2 when they fit.
  const RealBytes gradients = t.elements * kGradient;
  const RealBytes l2(device.l2_mbytes * 1e6);
  const RealBytes misses =
      t.pooled_bytes > l2 ? gradients * (1 - l2 / t.pooled_bytes) : t.pooled_bytes;
  RealBytes written;
  if (query.fused_update) {
    const RealBytes states = query.optimizer == OptimizerKind::kSgd ? RealBytes()
                             : query.rowwise                        ? t.unique * kState
                                                                    : t.unique_bytes;
    const double moments = query.optimizer == OptimizerKind::kAdam ? 2 : 1;
    written = 2 * t.unique_bytes + 2 * moments * states;
  } else {
    written = query.sparse_gradient ? gradients : t.unique_bytes;
    if (query.clears_gradient) written += t.table_bytes;
  }
  // A sparse gradient is copied bag by bag; others are added up row by row.
  const double steps = query.sparse_gradient ? (t.bags > 0 ? t.lookups / t.bags : 0)
                       : t.unique > 0        ? t.lookups / t.unique
                                             : 0;
  return {misses + written, gradients + written, query.sparse_gradient ? t.bags : t.unique, steps,
          steps};
}

Work UpdateWork(const EmbeddingTraffic& t) {
  const RealBytes gradients = t.elements * kGradient;
  const RealBytes moved = 2 * gradients + 3 * t.unique_bytes;
  const double steps = t.unique > 0 ? t.lookups / t.unique : 0;
  return {moved, moved, t.unique, steps, steps};
}

Work WorkOf(const EmbeddingParameters& p, const GpuPeaks& device, const EmbeddingQuery& query,
            const EmbeddingTraffic& t, LookupPass pass) {
  switch (pass) {
    case LookupPass::kForward:
      return ForwardWork(p, query, t);
    case LookupPass::kBackward:
      return BackwardWork(device, query, t);
    default:
      return UpdateWork(t);
  }
}

// CUB sorts up to this many 8-byte keys in one block, as part of what sort_us is for: linearising,
// sorting, run lengths. More take a histogram and a pass for every 8 bits of a row number instead
// of that one kernel.
constexpr double kSortedByOneBlock = 2304;
constexpr double kSmallSortKernels = 3;

RealUs SortKernels(const EmbeddingParameters& p, const EmbeddingQuery& query,
                   const EmbeddingTraffic& t) {
  const RealUs small(p.sort_us);
  if (t.lookups <= kSortedByOneBlock) return small;
  double rows = 0;
  for (const TableLookup& table : query.tables) rows += table.rows;
  const double passes = std::ceil(std::log2(std::max(rows, 2.0)) / 8);
  return small * (kSmallSortKernels + 1 + passes) / kSmallSortKernels;
}

bool Sorts(const EmbeddingQuery& query, LookupPass pass) {
  return pass == LookupPass::kUpdate || (pass == LookupPass::kBackward && !query.sparse_gradient);
}

}  // namespace

std::string_view Name(LookupKernels kernels) {
  static constexpr std::array<std::string_view, 2> kNames = {"batched", "bag"};
  return EnumName(kNames, kernels);
}

std::string_view Name(LookupPass pass) {
  static constexpr std::array<std::string_view, 3> kNames = {"forward", "backward", "update"};
  return EnumName(kNames, pass);
}

std::string_view EmbeddingParameterName(size_t index) {
  static constexpr std::array<std::string_view, kEmbeddingParameters> kNames = {
      "base_us", "dram_efficiency", "l2_gbps", "lookup_us", "length_skew", "sort_us", "sort_bytes"};
  return kNames[index];
}

EmbeddingParameterArray ToArray(const EmbeddingParameters& p) {
  return {p.base_us,     p.dram_efficiency, p.l2_gbps,   p.lookup_us,
          p.length_skew, p.sort_us,         p.sort_bytes};
}

EmbeddingParameters FromArray(const EmbeddingParameterArray& v) {
  return {v[0], v[1], v[2], v[3], v[4], v[5], v[6]};
}

EmbeddingParameters TypicalParameters(LookupPass pass, LookupKernels kernels) {
  EmbeddingParameters p;
  if (pass == LookupPass::kForward && kernels == LookupKernels::kBag) {
    p.base_us = 3;
    p.lookup_us = 0.21;
    p.l2_gbps = 990;
  }
  if (pass == LookupPass::kForward) return p;
  p.base_us = 12;
  p.sort_us = 12;
  p.sort_bytes = 100;
  return p;
}

double MultiprocessorClockHz(const GpuPeaks& device) {
  const auto& units = device.accelerator.units;
  const auto simt = std::ranges::find(units, UnitKind::kSimt, &ComputeUnit::kind);
  return simt == units.end() ? 0 : simt->clock_hz;
}

EmbeddingTraffic TrafficOf(const GpuPeaks& device, const EmbeddingQuery& query) {
  EmbeddingTraffic total;
  total.tables = static_cast<double>(query.tables.size());
  for (const TableLookup& t : query.tables) {
    const double unique = UniqueRows(t);
    const RealBytes row_bytes = RowBytes(t, query.weight_dtype);
    total.lookups += t.batch * t.pooling;
    total.unique += unique;
    total.bags += t.batch;
    total.longest = std::max(total.longest, t.pooling);
    total.elements += t.batch * t.pooling * t.dim;
    total.gathered_bytes += t.batch * t.pooling * row_bytes;
    total.pooled_bytes += RealBytes(t.batch * t.dim * 4);  // pooled in fp32
    total.unique_bytes += unique * row_bytes;
    total.table_bytes += t.rows * row_bytes;
  }
  const RealBytes l2(device.l2_mbytes * 1e6);
  const double cache_share = total.unique_bytes > RealBytes() ? l2 / total.unique_bytes : 1;
  for (const TableLookup& t : query.tables) {
    const double lookups = t.batch * t.pooling, unique = UniqueRows(t);
    const double hits = HitRate(t.reuse, lookups, unique, unique * cache_share);
    total.missed_bytes += (1 - hits) * lookups * RowBytes(t, query.weight_dtype);
  }
  return total;
}

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

EmbeddingTime LookupTime(const EmbeddingParameters& p, const GpuPeaks& device,
                         const EmbeddingQuery& query, const EmbeddingTraffic& traffic,
                         LookupPass pass) {
  const Work work = WorkOf(p, device, query, traffic, pass);
  const double dram_per_us = device.dram_gbps * 1e3 * p.dram_efficiency;
  EmbeddingTime time;
  if (traffic.gathered_bytes > RealBytes()) {
    time.hit_rate = 1 - traffic.missed_bytes / traffic.gathered_bytes;
  }
  time.dram_bytes = work.dram;
  time.l2_bytes = work.l2;
  // A warp walks its bag's lookups one after the other: no kernel is shorter than its longest bag,
  // and beyond what fits on the device warps queue.
  const double waves = work.chains / (device.sms * kWarpsPerSm);
  time.latency = std::max(waves * work.mean_steps, work.longest_steps) * RealUs(p.lookup_us);
  const double bandwidth_us =
      SmoothMax(work.dram.count() / dram_per_us, work.l2.count() / (p.l2_gbps * 1e3));
  time.kernel = RealUs(p.base_us + SmoothMax(bandwidth_us, time.latency.us()));
  if (Sorts(query, pass)) {
    time.sort =
        SortKernels(p, query, traffic) + RealUs(p.sort_bytes * traffic.lookups / dram_per_us);
  }
  return time;
}

std::array<float, kEmbeddingFeatures> EmbeddingFeatures(const EmbeddingTraffic& traffic,
                                                        const EmbeddingTime& time) {
  const auto log2 = [](double x) { return std::log2(static_cast<float>(std::max(x, 1e-6))); };
  return {log2(time.total().us()),
          log2(traffic.lookups),
          log2(traffic.unique),
          log2(traffic.bags),
          static_cast<float>(traffic.lookups > 0 ? traffic.elements / traffic.lookups : 0),
          static_cast<float>(time.hit_rate),
          static_cast<float>(traffic.tables),
          log2(time.latency / std::max(time.total(), RealUs(1e-6)))};
}

std::array<double, 3> EmbeddingRangeOf(const EmbeddingTraffic& traffic) {
  return {traffic.lookups, traffic.table_bytes.count(), traffic.bags};
}

bool EmbeddingModel::InRange(const EmbeddingTraffic& traffic) const {
  const auto at = EmbeddingRangeOf(traffic);
  for (size_t i = 0; i < at.size(); ++i) {
    if (at[i] < lower[i] || at[i] > upper[i]) return false;
  }
  return true;
}

EmbeddingTime EmbeddingModel::Time(const GpuPeaks& device, const EmbeddingQuery& query,
                                   const EmbeddingTraffic& traffic, LookupPass pass) const {
  EmbeddingParameters of = parameters;
  if (const double clocks = device.sms * MultiprocessorClockHz(device);
      pass == LookupPass::kForward && !calibrated() && clocks > 0) {
    of.l2_gbps *= clocks / kTypicalClocks;
  }
  EmbeddingTime time = LookupTime(of, device, query, traffic, pass);
  if (residual.empty()) return time;
  const double r = residual.Evaluate(EmbeddingFeatures(traffic, time));
  const double factor = std::exp(std::clamp(r, -residual_clip, residual_clip));
  time.kernel = time.kernel * factor;
  time.sort = time.sort * factor;
  return time;
}

EmbeddingModels::EmbeddingModels() {
  for (size_t kernels = 0; kernels < models_.size(); ++kernels) {
    for (size_t pass = 0; pass < models_[kernels].size(); ++pass) {
      models_[kernels][pass].parameters =
          TypicalParameters(static_cast<LookupPass>(pass), static_cast<LookupKernels>(kernels));
    }
  }
}

EmbeddingModels::Choice EmbeddingModels::Choose(LookupKernels kernels, LookupPass pass) const {
  const EmbeddingModel& own = at(kernels, pass);
  const bool typical = kernels == LookupKernels::kBag && pass == LookupPass::kForward;
  if (own.calibrated() || typical) return {&own, false};
  const EmbeddingModel& other =
      at(kernels == LookupKernels::kBatched ? LookupKernels::kBag : LookupKernels::kBatched, pass);
  if (other.calibrated()) return {&other, true};
  return {&own, false};
}

}  // namespace foretrace
