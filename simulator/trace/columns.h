#pragma once
// Columns of a rank's trace that keep less than a value a node: attributes that few nodes have and
// that mostly repeat, ids in a row, dependencies.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "simulator/base/ids.h"
#include "simulator/trace/kinds.h"

namespace foretrace {

struct NodeTag;
using NodeIndex = Id<NodeTag>;  // rank-local

// Where a node's entry is in a table that is sorted by node and has few of them.
class SparseIndex {
 public:
  static constexpr uint32_t kNone = 0xffffffff;

  // `nodes` in all; `node_of` tells the node of entry i < `entries`, in strictly ascending order.
  template <typename NodeOf>
  void Build(uint32_t nodes, uint32_t entries, NodeOf node_of) {
    if (entries == 0) return;
    words_.assign(nodes / 64 + 1, {});
    for (uint32_t i = 0; i < entries; ++i) {
      Word& word = words_[node_of(i) / 64];
      if (word.present == 0) word.first = i;
      word.present |= uint64_t{1} << (node_of(i) % 64);
    }
  }
  uint32_t Find(uint32_t node) const {
    if (words_.empty()) return kNone;
    const Word& word = words_[node / 64];
    const uint64_t bit = uint64_t{1} << (node % 64);
    if ((word.present & bit) == 0) return kNone;
    return word.first + static_cast<uint32_t>(std::popcount(word.present & (bit - 1)));
  }
  size_t bytes() const { return words_.capacity() * sizeof(Word); }

 private:
  struct Word {
    uint64_t present = 0;
    uint32_t first = 0;  // entries of earlier words
  };
  std::vector<Word> words_;
};

// Hashes that are the same in every run, so that what is shared is, too.
constexpr uint64_t MixHash(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15ull;
  return hash ^ (hash >> 32);
}
template <typename T>
requires std::is_integral_v<T>
constexpr uint64_t AttributeHash(T value) { return MixHash(0, static_cast<uint64_t>(value)); }

// Attributes of some nodes; equal ones are kept once where they recur soon. T has AttributeHash()
// and can be compared.
template <typename T>
class AttributeColumn {
 public:
  // Null where the node has none.
  const T* Find(uint32_t node) const {
    const uint32_t entry = index_.Find(node);
    return entry == SparseIndex::kNone ? nullptr : &values_[value_of_[entry]];
  }
  // The distinct values, to be changed for all nodes that have them.
  std::span<T> values() { return values_; }
  size_t bytes() const {
    return values_.capacity() * sizeof(T) + value_of_.capacity() * sizeof(uint32_t) +
           index_.bytes();
  }

 private:
  template <typename>
  friend class AttributeBuilder;

  std::vector<T> values_;
  std::vector<uint32_t> value_of_;  // by entry: index into values_
  SparseIndex index_;
};

// Takes attributes in any order of nodes.
template <typename T>
class AttributeBuilder {
 public:
  AttributeBuilder() { recent_.fill(kNone); }

  void Add(uint32_t node, const T& value) { entries_.push_back({node, Share(value)}); }
  // By order of adding.
  size_t size() const { return entries_.size(); }
  uint32_t node(size_t entry) const { return entries_[entry].node; }
  const T& value(size_t entry) const { return values_[entries_[entry].value]; }
  void Replace(size_t entry, const T& value) { entries_[entry].value = Share(value); }
  void Renumber(const std::vector<uint32_t>& new_index) {
    for (Entry& entry : entries_) entry.node = new_index[entry.node];
  }
  // Of several values for a node the first stands. Leaves the builder empty.
  AttributeColumn<T> Build(uint32_t nodes) {
    const auto before = [](const Entry& a, const Entry& b) { return a.node < b.node; };
    if (!std::is_sorted(entries_.begin(), entries_.end(), before)) {
      std::stable_sort(entries_.begin(), entries_.end(), before);
    }
    entries_.erase(std::unique(entries_.begin(), entries_.end(),
                               [](const Entry& a, const Entry& b) { return a.node == b.node; }),
                   entries_.end());
    AttributeColumn<T> column;
    column.index_.Build(nodes, static_cast<uint32_t>(entries_.size()),
                        [this](uint32_t entry) { return entries_[entry].node; });
    column.value_of_.reserve(entries_.size());
    for (const Entry& entry : entries_) column.value_of_.push_back(entry.value);
    values_.shrink_to_fit();
    column.values_ = std::move(values_);
    *this = AttributeBuilder();
    return column;
  }

 private:
  static constexpr uint32_t kNone = 0xffffffff;
  struct Entry {
    uint32_t node = 0;
    uint32_t value = 0;
  };

  uint32_t Share(const T& value) {
    uint32_t& recent = recent_[AttributeHash(value) % recent_.size()];
    if (recent == kNone || !(values_[recent] == value)) {
      recent = static_cast<uint32_t>(values_.size());
      values_.push_back(value);
    }
    return recent;
  }

  std::vector<Entry> entries_;
  std::vector<T> values_;
  std::array<uint32_t, 256> recent_;  // by hash: the value that had it last
};

// Ids of nodes in their file. Mostly they are in a row, or at least close together.
class IdColumn {
 public:
  IdColumn() = default;
  explicit IdColumn(std::vector<uint64_t> ids);

  uint64_t operator[](uint32_t node) const {
    if (!offsets_.empty()) return first_ + offsets_[node];
    return wide_.empty() ? first_ + node : wide_[node];
  }
  size_t bytes() const {
    return offsets_.capacity() * sizeof(uint32_t) + wide_.capacity() * sizeof(uint64_t);
  }

 private:
  // At most one of the two is filled; without any, the ids are those from first_ on.
  std::vector<uint32_t> offsets_;  // from first_
  std::vector<uint64_t> wide_;
  uint64_t first_ = 0;
};

struct Dependency {
  NodeIndex producer;
  DependencyKind kind = DependencyKind::kData;
};

// The dependencies of one node, in order of producer.
class DependencyRange {
 public:
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Dependency;
    using difference_type = std::ptrdiff_t;
    using pointer = void;
    using reference = Dependency;

    Iterator(const uint32_t* producer, const DependencyKind* kind)
        : producer_(producer), kind_(kind) {}
    Dependency operator*() const {
      return {NodeIndex(*producer_), kind_ == nullptr ? DependencyKind::kData : *kind_};
    }
    Iterator& operator++() {
      ++producer_;
      if (kind_ != nullptr) ++kind_;
      return *this;
    }
    Iterator operator++(int) {
      const Iterator before = *this;
      ++*this;
      return before;
    }
    bool operator==(const Iterator& other) const { return producer_ == other.producer_; }

   private:
    const uint32_t* producer_;
    const DependencyKind* kind_;
  };

  // Without `kinds` all are kData.
  DependencyRange(std::span<const uint32_t> producers, const DependencyKind* kinds)
      : producers_(producers), kinds_(kinds) {}
  Iterator begin() const { return {producers_.data(), kinds_}; }
  Iterator end() const { return {producers_.data() + producers_.size(), nullptr}; }
  size_t size() const { return producers_.size(); }
  bool empty() const { return producers_.empty(); }
  Dependency operator[](size_t i) const {
    return {NodeIndex(producers_[i]), kinds_ == nullptr ? DependencyKind::kData : kinds_[i]};
  }

 private:
  std::span<const uint32_t> producers_;
  const DependencyKind* kinds_;
};

// The dependencies of all nodes. Added node by node, in order of node and then of producer.
class DependencyColumn {
 public:
  void Reserve(uint32_t nodes, size_t dependencies) {
    begin_.reserve(nodes + 1);
    producers_.reserve(dependencies);
  }
  // `consumer` is not below that of the call before.
  void Add(uint32_t consumer, const Dependency& dependency);
  // No more will be added.
  void Close(uint32_t nodes) { begin_.resize(nodes + 1, static_cast<uint32_t>(producers_.size())); }

  DependencyRange of(uint32_t node) const {
    const uint32_t begin = begin_[node];
    return {{producers_.data() + begin, producers_.data() + begin_[node + 1]},
            kinds_.empty() ? nullptr : kinds_.data() + begin};
  }
  size_t size() const { return producers_.size(); }
  size_t bytes() const {
    return begin_.capacity() * sizeof(uint32_t) + producers_.capacity() * sizeof(uint32_t) +
           kinds_.capacity() * sizeof(DependencyKind);
  }

 private:
  std::vector<uint32_t> begin_;  // by node, and one more where the last's end
  std::vector<uint32_t> producers_;
  std::vector<DependencyKind> kinds_;  // empty while all are kData
};

}  // namespace foretrace
