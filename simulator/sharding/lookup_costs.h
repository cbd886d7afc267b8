#pragma once
// How long the lookups of the shards of one rank take, from the physical embedding model.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "simulator/base/estimate.h"
#include "simulator/cost/embedding/embedding_model.h"
#include "simulator/cost/embedding/lookup_stack.h"
#include "simulator/sharding/dealt_rows.h"
#include "simulator/sharding/plan.h"

namespace foretrace {

struct LookupTimes {
  SimTime forward;
  SimTime backward;
  bool extrapolated = false;  // beyond what the models were calibrated on
};

// All shards of a rank run in one kernel (FBGEMM's table-batched lookups), and in one more the
// data-parallel ones, whose gradients are written instead of applied. With a lookup stack, each in
// the stack's kernels. Not thread-safe: what has been asked is remembered.
class LookupCosts {
 public:
  // `task` must outlive this. `stack` may be null.
  LookupCosts(const ShardingTask& task, GpuPeaks device, EmbeddingModels models,
              std::shared_ptr<const LookupStack> stack = nullptr)
      : task_(task),
        device_(std::move(device)),
        models_(std::move(models)),
        stack_(std::move(stack)),
        forward_(models_.Choose(LookupKernels::kBatched, LookupPass::kForward)),
        backward_(models_.Choose(LookupKernels::kBatched, LookupPass::kBackward)) {}
  LookupCosts(const LookupCosts&) = delete;
  LookupCosts& operator=(const LookupCosts&) = delete;

  // Shards of kind kDataParallel are left out of ModelParallel, all others out of DataParallel. No
  // shards take no time.
  LookupTimes ModelParallel(std::span<const Shard> shards) { return Times(shards, false); }
  LookupTimes DataParallel(std::span<const Shard> shards) { return Times(shards, true); }
  // Mean lookups of a sample that the shard serves.
  double PoolingOf(const Shard& shard) {
    const auto vectors = task_.tables[static_cast<size_t>(shard.table)].vectors();
    return lookups_[IdOf(shard)].pooling * static_cast<double>(vectors);
  }
  // What a forward and a backward kernel cost whatever they look up.
  double base_us() const {
    if (stack_ != nullptr) return 0;  // each table has its own kernels
    const EmbeddingParameters& backward = backward_.model->parameters;
    return forward_.model->parameters.base_us + backward.base_us + backward.sort_us;
  }
  EstimateSource source() const {
    return stack_ != nullptr ? EstimateSource::kAnalytic
                             : std::max(forward_.source(), backward_.source());
  }
  const GpuPeaks& device() const { return device_; }

 private:
  struct ShardKey {
    int32_t table;
    int64_t first_row;
    int64_t rows;
    int64_t columns;
    PlacementKind kind;
    bool uvm;
    bool operator==(const ShardKey&) const = default;
    template <typename H>
    friend H AbslHashValue(H h, const ShardKey& k) {
      return H::combine(std::move(h), k.table, k.first_row, k.rows, k.columns, k.kind, k.uvm);
    }
  };
  LookupTimes Times(std::span<const Shard> shards, bool data_parallel);
  LookupTimes Compute(std::span<const uint32_t> ids, bool data_parallel) const;
  LookupTimes StackTimes(std::span<const uint32_t> ids) const;
  uint32_t IdOf(const Shard& shard);
  // The batch's lookups in a shard, as the embedding model wants them. A data-parallel copy sees
  // one rank's samples.
  TableLookup LookupOf(const Shard& shard);

  const ShardingTask& task_;
  GpuPeaks device_;
  EmbeddingModels models_;
  std::shared_ptr<const LookupStack> stack_;
  EmbeddingModels::Choice forward_, backward_;
  absl::flat_hash_map<ShardKey, uint32_t> ids_;
  absl::flat_hash_map<int32_t, DealtRows> dealt_;  // by table
  std::vector<Shard> shards_;                      // by id
  std::vector<TableLookup> lookups_;               // by id
  absl::flat_hash_map<std::vector<uint32_t>, LookupTimes> known_;
  std::vector<uint32_t> key_;
};

}  // namespace foretrace
