#pragma once
// Time of pooled embedding lookups, forward and backward, from table sizes and reuse factors:
// physics of caches, bandwidths, latency and occupancy, and a learnt residual where there are data
// for one.

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "simulator/base/dtype.h"
#include "simulator/base/estimate.h"
#include "simulator/base/real_quantities.h"
#include "simulator/cost/embedding/reuse_factors.h"
#include "simulator/cost/kernel/gpu_peaks.h"
#include "simulator/cost/kernel/tree_ensemble.h"
#include "simulator/cost/operator/operator.h"

namespace foretrace {

// One table of a batched lookup.
struct TableLookup {
  double batch = 0;        // B: bags
  double rows = 0;         // E
  double dim = 0;          // D: elements of a row
  double pooling = 0;      // L: mean lookups a bag
  ReuseFactors reuse;      // of this batch; all zero: every lookup of its own row
  double unique_rows = 0;  // distinct rows; 0: estimated from the reuse factors
};

struct EmbeddingQuery {
  std::vector<TableLookup> tables;  // run in one kernel
  DType weight_dtype = DType::kFloat32;
  OptimizerKind optimizer = OptimizerKind::kAdagrad;
  bool rowwise = true;
  bool fused_update = true;      // backward applies the optimizer; otherwise it makes a gradient:
  bool clears_gradient = false;  // after setting that of the whole table to zero,
  bool sparse_gradient = false;  // or with one row for each lookup
  // Tables have the mean of all for their pooling factors; their own are not known.
  bool mean_lengths = false;
};

// Which kernels run. Fitted apart, because they are different programs.
enum class LookupKernels : uint8_t {
  kBatched,  // FBGEMM's table-batched lookups
  kBag,      // PyTorch's embedding_bag
  kCount,
};
std::string_view Name(LookupKernels kernels);

enum class LookupPass : uint8_t {
  kForward,
  kBackward,
  kUpdate,  // the optimizer with a sparse gradient; fused backward passes have none
  kCount,
};
std::string_view Name(LookupPass pass);

// Fitted per platform, kernels and pass: numbers of the unit that their names say, as files have
// them.
struct EmbeddingParameters {
  double base_us = 5;            // of the kernels, however little they do
  double dram_efficiency = 0.7;  // of the DRAM peak, for scattered rows
  double l2_gbps = 2000;         // rows that hit in L2
  double lookup_us = 0.5;        // a warp's time for one lookup after the other
  // Where only the mean pooling factor over tables is known: the longest table's over it.
  double length_skew = 1;
  // Backward only. Sorting and grouping the indices: a base for its kernels, and bytes moved for
  // each lookup (by default linearised, 20; three radix passes, 72; run lengths, 8).
  double sort_us = 0;
  double sort_bytes = 0;
};
inline constexpr size_t kEmbeddingParameters = 7;
using EmbeddingParameterArray = std::array<double, kEmbeddingParameters>;
std::string_view EmbeddingParameterName(size_t index);
EmbeddingParameterArray ToArray(const EmbeddingParameters& parameters);
EmbeddingParameters FromArray(const EmbeddingParameterArray& values);
// Where nothing was measured. Kernels have about 4 us each from launch to end: backward passes run
// three for the gradients (FBGEMM: long segments, one row a block, one row a warp) and three to
// sort. l2_gbps is that of an A100, whose lookups were measured (calibration/a100-sxm4-nvswitch).
// Of embedding_bag's forward kernel, which takes a bag's lookups one by one, with 1,024 blocks
// however many there are, those of dlrm-heavy-b1024 and dlrm-mixed-b2048 (H100, traces/README.md,
// "Captured"), for an A100's clocks.
EmbeddingParameters TypicalParameters(LookupPass pass,
                                      LookupKernels kernels = LookupKernels::kBatched);
// Clock of the multiprocessors; 0 where the device's file does not state it.
double MultiprocessorClockHz(const GpuPeaks& device);

// What a lookup moves, whatever the parameters.
struct EmbeddingTraffic {
  double lookups = 0, unique = 0, bags = 0, tables = 0;
  double longest = 0;        // mean pooling factor of the table that has the largest
  RealBytes gathered_bytes;  // rows read, hits and misses
  RealBytes missed_bytes;
  RealBytes pooled_bytes;  // outputs, or their gradients
  RealBytes unique_bytes;
  RealBytes table_bytes;
  double elements = 0;  // lookups * dim
};
// The rows of all tables share L2; each table gets a part in proportion to its distinct rows'
// bytes.
EmbeddingTraffic TrafficOf(const GpuPeaks& device, const EmbeddingQuery& query);

struct EmbeddingTime {
  RealUs kernel;
  RealUs sort;          // of the indices, before a backward pass
  double hit_rate = 0;  // of row reads in L2, over all tables
  RealBytes dram_bytes;
  RealBytes l2_bytes;
  RealUs latency;
  RealUs total() const { return kernel + sort; }
};

// Rows that hit in a cache of `cache_rows` rows, as a share of lookups. Lookups of a row are taken
// as spread evenly over the batch; a row that is looked up again stays cached with probability
// 1 - exp(-rate T), with Che's characteristic time T of an LRU cache (Che, Tung and Wang, 2002);
// first lookups miss.
double HitRate(const ReuseFactors& reuse, double lookups, double unique_rows, double cache_rows);

// Forward: rows gathered and pooled. Backward: gradients gathered row by row, and the optimizer's
// update of each distinct row, or its gradient written. Update: the rows of a sparse gradient added
// up, and each distinct row of the table updated.
EmbeddingTime LookupTime(const EmbeddingParameters& parameters, const GpuPeaks& device,
                         const EmbeddingQuery& query, const EmbeddingTraffic& traffic,
                         LookupPass pass);

inline constexpr size_t kEmbeddingFeatures = 8;
// For a residual: log2 of the modelled time, lookups, distinct rows, bags; mean dimension; hit
// rate; tables; log2 of the latency part over the time.
std::array<float, kEmbeddingFeatures> EmbeddingFeatures(const EmbeddingTraffic& traffic,
                                                        const EmbeddingTime& time);

// One pass of one kind of kernels: parameters, optional residual of log time, calibrated range.
struct EmbeddingModel {
  EmbeddingParameters parameters;
  // Share of what is known of each parameter that comes from measurements, from 0 (typical or
  // published values alone) to 1.
  EmbeddingParameterArray informed = {};
  TreeEnsemble residual;
  double residual_clip = 0;
  // Total lookups, bytes of all tables, bags.
  std::array<double, 3> lower = {}, upper = {};
  int64_t points = 0;  // 0: not calibrated

  bool calibrated() const { return points > 0; }
  bool InRange(const EmbeddingTraffic& traffic) const;
  // What a forward pass takes from L2 is limited by what the multiprocessors have under way: 13.5
  // bytes for each and clock on the A100 and the H100 that were measured, so that without a
  // calibration the typical rate goes with these.
  EmbeddingTime Time(const GpuPeaks& device, const EmbeddingQuery& query,
                     const EmbeddingTraffic& traffic, LookupPass pass) const;
};
std::array<double, 3> EmbeddingRangeOf(const EmbeddingTraffic& traffic);

// All that a platform has; by default the physics with typical parameters, which is analytic.
class EmbeddingModels {
 public:
  EmbeddingModels();
  EmbeddingModel& at(LookupKernels kernels, LookupPass pass) {
    return models_[static_cast<size_t>(kernels)][static_cast<size_t>(pass)];
  }
  const EmbeddingModel& at(LookupKernels kernels, LookupPass pass) const {
    return models_[static_cast<size_t>(kernels)][static_cast<size_t>(pass)];
  }
  // The model to use: that of the kernels, or where it is not calibrated the calibrated one of the
  // other kernels, whose answers count as extrapolated. Typical parameters of embedding_bag's own
  // forward kernel say more of it than measured ones of FBGEMM's.
  struct Choice {
    const EmbeddingModel* model = nullptr;
    bool other_kernels = false;
    EstimateSource source() const {
      return model->calibrated() ? EstimateSource::kCalibrated : EstimateSource::kAnalytic;
    }
  };
  Choice Choose(LookupKernels kernels, LookupPass pass) const;

 private:
  std::array<std::array<EmbeddingModel, static_cast<size_t>(LookupPass::kCount)>,
             static_cast<size_t>(LookupKernels::kCount)>
      models_;
};

}  // namespace foretrace
