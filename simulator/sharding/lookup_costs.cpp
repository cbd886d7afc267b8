#include "simulator/sharding/lookup_costs.h"

#include <algorithm>

#include "simulator/sharding/dense_work.h"

namespace foretrace {
namespace {

constexpr size_t kMostRemembered = 1 << 20;
constexpr double kStateBytes = 4;  // optimizer state is fp32

}  // namespace

TableLookup LookupCosts::LookupOf(const Shard& shard) {
  const EmbeddingTable& table = task_.tables[static_cast<size_t>(shard.table)];
  TableLookup lookup;
  TableAccess access = table.access;
  lookup.batch = static_cast<double>(task_.batch);
  if (shard.kind == PlacementKind::kDataParallel) {
    access = ThinAccess(access, 1.0 / task_.gpus);
    lookup.batch = static_cast<double>(task_.local_batch());
  }
  const auto inputs = static_cast<double>(table.vectors());
  lookup.batch *= inputs;
  lookup.rows = static_cast<double>(shard.rows);
  lookup.dim = static_cast<double>(shard.columns);
  lookup.pooling = table.pooling / inputs;
  lookup.reuse = access.reuse;
  lookup.unique_rows = static_cast<double>(access.unique_rows);
  if (shard.rows == table.rows) return lookup;
  const auto [dealt, first] =
      dealt_.try_emplace(shard.table, access, table.rows, static_cast<uint64_t>(shard.table));
  const DealtRows::Part part = dealt->second.Of(shard.first_row, shard.rows);
  lookup.pooling *= part.lookups;
  lookup.reuse = part.reuse;
  lookup.unique_rows = part.unique_rows;
  return lookup;
}

uint32_t LookupCosts::IdOf(const Shard& shard) {
  const ShardKey key{shard.table,   shard.first_row, shard.rows,
                     shard.columns, shard.kind,      shard.uvm};
  const auto [it, inserted] = ids_.try_emplace(key, static_cast<uint32_t>(shards_.size()));
  if (inserted) {
    shards_.push_back(shard);
    lookups_.push_back(LookupOf(shard));
  }
  return it->second;
}

LookupTimes LookupCosts::Times(std::span<const Shard> shards, bool data_parallel) {
  key_.clear();
  for (const Shard& s : shards) {
    if ((s.kind == PlacementKind::kDataParallel) == data_parallel) key_.push_back(IdOf(s));
  }
  if (key_.empty()) return {};
  std::sort(key_.begin(), key_.end());
  const auto known = known_.find(key_);
  if (known != known_.end()) return known->second;
  const LookupTimes times = Compute(key_, data_parallel);
  if (known_.size() >= kMostRemembered) known_.clear();
  known_.emplace(key_, times);
  return times;
}

LookupTimes LookupCosts::StackTimes(std::span<const uint32_t> ids) const {
  LookupTimes times;
  for (const uint32_t id : ids) {
    const EmbeddingTable& table = task_.tables[static_cast<size_t>(shards_[id].table)];
    StackTable of;
    of.lookup = lookups_[id];
    of.poolings = table.inputs.empty() ? std::span<const double>(&table.pooling, 1) : table.inputs;
    of.element = Bytes(ElementSize(table.dtype));
    const auto time = [&](LookupPass pass) {
      return StackTime(*stack_, device_, of, pass, task_.gpus > 1);
    };
    times.forward += time(LookupPass::kForward);
    times.backward += time(LookupPass::kBackward);
  }
  return times;
}

LookupTimes LookupCosts::Compute(std::span<const uint32_t> ids, bool data_parallel) const {
  if (stack_ != nullptr) return StackTimes(ids);
  // Tables of different types run in kernels of their own.
  LookupTimes times;
  for (int type = 1; type < static_cast<int>(DType::kCount); ++type) {
    EmbeddingQuery query;
    query.weight_dtype = static_cast<DType>(type);
    query.optimizer = task_.optimizer;
    query.rowwise = task_.rowwise;
    query.fused_update = !data_parallel;
    query.clears_gradient = data_parallel;
    double fetched_bytes = 0, state_bytes = 0;
    for (const uint32_t id : ids) {
      const EmbeddingTable& table = task_.tables[static_cast<size_t>(shards_[id].table)];
      if (table.dtype != query.weight_dtype) continue;
      query.tables.push_back(lookups_[id]);
      if (!shards_[id].uvm) continue;
      // Rows are taken as alike over batches: the cache holds any of them with probability
      // cache_ratio. Rows written back leave while others come in.
      fetched_bytes += lookups_[id].unique_rows * (1 - task_.uvm.cache_ratio) * lookups_[id].dim *
                       static_cast<double>(ElementSize(table.dtype));
      // FBGEMM's cache holds weights; states of more than a value a row stay in host memory, where
      // the update reads and writes them, both directions of the link at once
      // (construct_split_state of its split_table_batched_embeddings_ops_training.py).
      if (!task_.rowwise) {
        state_bytes += lookups_[id].unique_rows * lookups_[id].dim *
                       static_cast<double>(OptimizerStates(task_.optimizer)) * kStateBytes;
      }
    }
    if (query.tables.empty()) continue;
    const EmbeddingTraffic traffic = TrafficOf(device_, query);
    const auto us = [&](const EmbeddingModels::Choice& choice, LookupPass pass) {
      times.extrapolated |=
          choice.other_kernels || (choice.model->calibrated() && !choice.model->InRange(traffic));
      return choice.model->Time(device_, query, traffic, pass).total().us();
    };
    times.forward += SimTime::FromUs(us(forward_, LookupPass::kForward));
    times.backward += SimTime::FromUs(us(backward_, LookupPass::kBackward));
    const auto over_link = [&](double bytes) {
      return bytes > 0 ? SimTime::FromSeconds(bytes / task_.uvm.host_bandwidth.bytes_per_second())
                       : SimTime();
    };
    times.forward += over_link(fetched_bytes);
    times.backward += over_link(state_bytes);
  }
  return times;
}

}  // namespace foretrace
