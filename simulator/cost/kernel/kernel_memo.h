#pragma once
// What models of kernels have answered. Searches ask the same of them thousands of times.

#include <array>
#include <bit>
#include <cstdint>
#include <mutex>
#include <optional>
#include <shared_mutex>

#include "absl/container/flat_hash_map.h"
#include "simulator/cost/kernel/kernel_model.h"

namespace foretrace {

// Answers by everything that an estimate may depend on.
class KernelModels::Memo {
 public:
  using Key = std::array<int64_t, 26>;

  static Key KeyOf(const KernelWork& work, Precision precision) {
    const auto small =
        work.load_elements << 40 | static_cast<int64_t>(work.row_place) << 48 |
        static_cast<int64_t>(work.kind) << 32 | static_cast<int64_t>(work.across_reduction) << 28 |
        static_cast<int64_t>(work.pass) << 24 | static_cast<int64_t>(work.dtype) << 16 |
        static_cast<int64_t>(work.direction) << 8 | static_cast<int64_t>(work.mean_square) << 6 |
        static_cast<int64_t>(work.trips_are_steps) << 5 |
        static_cast<int64_t>(work.block_scaled) << 4 | static_cast<int64_t>(work.by_warps) << 3 |
        static_cast<int64_t>(work.adds_bias) << 7 |
        static_cast<int64_t>(work.weight_gradient) << 2 |
        static_cast<int64_t>(work.across_rows) << 1 | static_cast<int64_t>(work.pinned);
    return {small,
            static_cast<int64_t>(precision),
            work.read.count(),
            work.written.count(),
            work.read_again.count(),
            work.blocks,
            work.scattered,
            work.batch,
            work.m,
            work.n,
            work.k,
            work.rows,
            work.cols,
            work.filter_h,
            work.filter_w,
            work.stride,
            work.image,
            work.channels,
            work.images,
            work.launches,
            work.parts,
            std::bit_cast<int64_t>(work.flop.count()),
            std::bit_cast<int64_t>(work.instructions),
            std::bit_cast<int64_t>(work.bandwidth_share),
            work.trips};
  }

  std::optional<Estimate> Find(const Key& key) const {
    const std::shared_lock lock(mutex_);
    const auto it = known_.find(key);
    return it == known_.end() ? std::nullopt : std::optional(it->second);
  }
  void Insert(const Key& key, const Estimate& estimate) {
    const std::unique_lock lock(mutex_);
    if (known_.size() < kMost) known_.emplace(key, estimate);
  }

 private:
  static constexpr size_t kMost = 1 << 16;  // 13 MB

  // Not absl::Mutex, which looks for deadlocks where Abseil was built without NDEBUG, as Debian's.
  mutable std::shared_mutex mutex_;
  absl::flat_hash_map<Key, Estimate> known_;
};

}  // namespace foretrace
