#pragma once
// A priority queue of timed items for simulations in which many items share exactly the same time:
// items of equal time fall into one bucket, so a batch of k costs one heap operation, not k.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "simulator/base/check.h"

namespace foretrace {

// Items come out in order of (time, insertion). T is cheap to copy. Not thread-safe.
template <typename T>
class BucketQueue {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  // `time` must be a number.
  void Push(double time, const T& item) {
    const auto bits = std::bit_cast<uint64_t>(time);
    uint32_t& cached = recent_[(bits * 0x9E3779B97F4A7C15ull) >> 56];
    if (cached == kNoBucket || !buckets_[cached].open || buckets_[cached].time != time) {
      cached = NewBucket(time);
    }
    buckets_[cached].items.push_back(item);
  }

  bool empty() const { return heap_.empty(); }
  double NextTime() const { return heap_.empty() ? kNever : heap_.front().time; }

  // Appends every item of the earliest time to `items`.
  void PopBatch(std::vector<T>& items) {
    FORETRACE_CHECK(!heap_.empty());
    const double time = heap_.front().time;
    while (!heap_.empty() && heap_.front().time == time) {
      const uint32_t index = heap_.front().bucket;
      std::pop_heap(heap_.begin(), heap_.end(), Later);
      heap_.pop_back();
      Bucket& bucket = buckets_[index];
      items.insert(items.end(), bucket.items.begin(), bucket.items.end());
      bucket.items.clear();
      bucket.open = false;
      free_.push_back(index);
    }
  }

 private:
  static constexpr uint32_t kNoBucket = std::numeric_limits<uint32_t>::max();
  struct Bucket {
    double time = 0;
    bool open = false;
    std::vector<T> items;
  };
  struct Entry {
    double time;
    uint64_t sequence;
    uint32_t bucket;
  };
  static bool Later(const Entry& a, const Entry& b) {
    return a.time != b.time ? a.time > b.time : a.sequence > b.sequence;
  }

  uint32_t NewBucket(double time) {
    uint32_t index;
    if (free_.empty()) {
      index = static_cast<uint32_t>(buckets_.size());
      buckets_.emplace_back();
    } else {
      index = free_.back();
      free_.pop_back();
    }
    buckets_[index].time = time;
    buckets_[index].open = true;
    heap_.push_back({time, sequence_++, index});
    std::push_heap(heap_.begin(), heap_.end(), Later);
    return index;
  }

  static constexpr std::array<uint32_t, 256> NoneCached() {
    std::array<uint32_t, 256> none{};
    none.fill(kNoBucket);
    return none;
  }

  std::vector<Entry> heap_;
  std::vector<Bucket> buckets_;
  std::vector<uint32_t> free_;
  std::array<uint32_t, 256> recent_ = NoneCached();
  uint64_t sequence_ = 0;
};

}  // namespace foretrace
