#pragma once
// How long the lookups of the shards of one rank take, from the physical embedding model.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "simulator/base/estimate.h"
#include "simulator/cost/embedding/embedding_model.h"
#include "simulator/sharding/plan.h"

namespace foretrace {

// Models of both directions; by default the physics with typical parameters, which is analytic.
struct EmbeddingModels {
  EmbeddingModel forward;
  EmbeddingModel backward;
  EstimateSource source = EstimateSource::kAnalytic;
};

struct LookupTimes {
  SimTime forward;
  SimTime backward;
};

// The batch's lookups in a shard, as the embedding model wants them. Rows of a row-wise shard get
// their share of the accesses (indices are hashed); a data-parallel copy sees one rank's samples.
TableLookup LookupOf(const ShardingTask& task, const Shard& shard);

// All shards of a rank run in one kernel (FBGEMM's table-batched lookups), and in one more the
// data-parallel ones, whose gradients are written instead of applied. Not thread-safe: what has been
// asked is remembered.
class LookupCosts {
 public:
  // `task` must outlive this.
  LookupCosts(const ShardingTask& task, GpuPeaks device, EmbeddingModels models)
      : task_(task), device_(std::move(device)), models_(std::move(models)) {}

  // Shards of kind kDataParallel are left out of ModelParallel, all others out of DataParallel. No
  // shards take no time.
  LookupTimes ModelParallel(std::span<const Shard> shards) { return Times(shards, false); }
  LookupTimes DataParallel(std::span<const Shard> shards) { return Times(shards, true); }
  // What a forward and a backward kernel cost whatever they look up.
  double base_us() const {
    return models_.forward.parameters.base_us + models_.backward.parameters.base_us;
  }
  EstimateSource source() const { return models_.source; }
  const GpuPeaks& device() const { return device_; }

 private:
  struct ShardKey {
    int32_t table;
    int64_t rows;
    int64_t columns;
    PlacementKind kind;
    bool uvm;
    bool operator==(const ShardKey&) const = default;
    template <typename H>
    friend H AbslHashValue(H h, const ShardKey& k) {
      return H::combine(std::move(h), k.table, k.rows, k.columns, k.kind, k.uvm);
    }
  };
  LookupTimes Times(std::span<const Shard> shards, bool data_parallel);
  LookupTimes Compute(std::span<const uint32_t> ids, bool data_parallel) const;
  uint32_t IdOf(const Shard& shard);

  const ShardingTask& task_;
  GpuPeaks device_;
  EmbeddingModels models_;
  absl::flat_hash_map<ShardKey, uint32_t> ids_;
  std::vector<Shard> shards_;         // by id
  std::vector<TableLookup> lookups_;  // by id
  absl::flat_hash_map<std::vector<uint32_t>, LookupTimes> known_;
  std::vector<uint32_t> key_;
};

}  // namespace foretrace
