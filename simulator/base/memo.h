#pragma once
// Results that are asked for again and again.

#include <memory>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace foretrace {

// Results by all that they follow from. Thread-safe; what it gave stays as long as it does.
template <typename Key, typename Value>
class Memo {
 public:
  // Of the key, by `compute()` where it is not known. Two threads may compute the same.
  template <typename Compute>
  const Value& Get(const Key& key, const Compute& compute) const {
    {
      const std::shared_lock lock(mutex_);
      if (const auto it = known_.find(key); it != known_.end()) return *it->second;
    }
    auto made = std::make_unique<const Value>(compute());
    const std::unique_lock lock(mutex_);
    return *known_.try_emplace(key, std::move(made)).first->second;
  }

 private:
  mutable std::shared_mutex mutex_;
  mutable absl::flat_hash_map<Key, std::unique_ptr<const Value>> known_;
};

}  // namespace foretrace
