#pragma once
// The bare DAG that partitioners work on, and its downsets.

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace foretrace {

// Nodes are 0..size-1. Immutable.
class OpGraph {
 public:
  OpGraph() = default;
  // Errors: ends out of range, self loops, cycles. Duplicate edges are united.
  static absl::StatusOr<OpGraph> Create(int32_t size,
                                        const std::vector<std::pair<int32_t, int32_t>>& edges);

  int32_t size() const { return static_cast<int32_t>(successors_.size()); }
  std::span<const int32_t> successors(int32_t v) const { return successors_[v]; }
  std::span<const int32_t> predecessors(int32_t v) const { return predecessors_[v]; }
  // Smallest node first among those ready.
  std::span<const int32_t> topological_order() const { return order_; }
  OpGraph Reversed() const;

 private:
  std::vector<std::vector<int32_t>> successors_;
  std::vector<std::vector<int32_t>> predecessors_;
  std::vector<int32_t> order_;
};

// All predecessor-closed node sets of a graph, numbered so that a subset has a smaller number; 0 is
// the empty set, the last is the whole graph. A stage of a pipeline whose stages are ordered is the
// difference of two nested downsets.
class DownsetLattice {
 public:
  // Errors (infeasible): more than `limit` downsets; their number is exponential in the number of
  // parallel branches.
  static absl::StatusOr<DownsetLattice> Enumerate(const OpGraph& graph, size_t limit);

  size_t size() const { return words_ == 0 ? 1 : bits_.size() / words_; }
  size_t full() const { return size() - 1; }
  bool Contains(size_t set, int32_t node) const {
    return (bits_[set * words_ + static_cast<size_t>(node) / 64] >> (node % 64)) & 1;
  }
  bool IsSubset(size_t inner, size_t outer) const {
    const uint64_t* a = &bits_[inner * words_];
    const uint64_t* b = &bits_[outer * words_];
    for (size_t w = 0; w < words_; ++w) {
      if (a[w] & ~b[w]) return false;
    }
    return true;
  }
  // Nodes of `outer` that are not in `inner`, ascending.
  std::vector<int32_t> Difference(size_t inner, size_t outer) const;
  // value(outer) = sum of `weights` over its nodes.
  std::vector<double> Sums(std::span<const double> weights) const;

 private:
  size_t words_ = 0;
  int32_t nodes_ = 0;
  std::vector<uint64_t> bits_;
};

}  // namespace foretrace
