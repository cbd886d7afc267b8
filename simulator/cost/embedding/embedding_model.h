#pragma once
// Time of batched, pooled embedding lookups (FBGEMM's table-batched kernels), forward and backward,
// from table sizes and reuse factors: physics of caches, bandwidths, latency and occupancy, with a
// hook for a learnt residual.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "simulator/base/dtype.h"
#include "simulator/cost/embedding/reuse_factors.h"
#include "simulator/cost/kernel/gpu_peaks.h"
#include "simulator/cost/kernel/tree_ensemble.h"
#include "simulator/cost/operator/operator.h"

namespace foretrace {

// One table of a batched lookup.
struct TableLookup {
  double batch = 0;           // B: bags
  double rows = 0;            // E
  double dim = 0;             // D: elements of a row
  double pooling = 0;         // L: mean lookups a bag
  ReuseFactors reuse;         // of this batch; all zero: every lookup of its own row
  double unique_rows = 0;     // distinct rows; 0: estimated from the reuse factors
};

struct EmbeddingQuery {
  std::vector<TableLookup> tables;  // run in one kernel
  DType weight_dtype = DType::kFloat32;
  OptimizerKind optimizer = OptimizerKind::kAdagrad;
  bool rowwise = true;
  bool fused_update = true;
};

// Fitted per platform and direction.
struct EmbeddingParameters {
  double base_us = 5;
  double dram_efficiency = 0.7;   // of the DRAM peak, for scattered rows
  double l2_gbps = 2000;          // rows that hit in L2
  double lookup_us = 0.5;         // a warp's time for one lookup after the other
  // Backward only: sorting and grouping the indices moves this many bytes a lookup (by default
  // linearised, 20; three radix passes, 72; run lengths, 8).
  double sort_bytes = 100;
};

struct EmbeddingTime {
  double kernel_us = 0;
  double hit_rate = 0;      // of row reads in L2, over all tables
  double dram_bytes = 0;
  double l2_bytes = 0;
  double latency_us = 0;
  // For a residual: log2 of time, lookups, unique rows, bags; mean dim; hit rate; tables; log2 of
  // the latency part over the time.
  std::array<float, 8> features = {};
};

// Rows that hit in a cache of `cache_rows` rows, as a share of lookups. Lookups of a row are taken
// as spread evenly over the batch; a row that is looked up again stays cached with probability
// 1 - exp(-rate T), with Che's characteristic time T of an LRU cache (Che, Tung and Wang, 2002);
// first lookups miss.
double HitRate(const ReuseFactors& reuse, double lookups, double unique_rows, double cache_rows);

EmbeddingTime EmbeddingForward(const EmbeddingParameters& parameters, const GpuPeaks& device,
                               const EmbeddingQuery& query);
// Sort of the indices, gradients gathered row by row, and the optimizer's update of each distinct
// row (or, without fused_update, writing its gradient).
EmbeddingTime EmbeddingBackward(const EmbeddingParameters& parameters, const GpuPeaks& device,
                                const EmbeddingQuery& query);

// A calibrated direction: parameters, optional residual of log time, and the calibrated range.
struct EmbeddingModel {
  EmbeddingParameters parameters;
  TreeEnsemble residual;
  double residual_clip = 0;
  // Total lookups, bytes of all tables, bags.
  std::array<double, 3> lower = {}, upper = {};
  int64_t points = 0;
  bool InRange(const EmbeddingQuery& query) const;
  double KernelUs(const GpuPeaks& device, const EmbeddingQuery& query, Direction pass) const;
};
std::array<double, 3> EmbeddingRangeOf(const EmbeddingQuery& query);

}  // namespace foretrace
