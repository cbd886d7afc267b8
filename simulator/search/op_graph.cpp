#include "simulator/search/op_graph.h"

#include <algorithm>
#include <functional>
#include <queue>

#include "absl/container/flat_hash_set.h"
#include "simulator/base/error.h"

namespace foretrace {

absl::StatusOr<OpGraph> OpGraph::Create(int32_t size,
                                        const std::vector<std::pair<int32_t, int32_t>>& edges) {
  OpGraph g;
  if (size < 0) return InvalidInput("operator graph: negative size {}", size);
  g.successors_.resize(static_cast<size_t>(size));
  g.predecessors_.resize(static_cast<size_t>(size));
  for (const auto& [from, to] : edges) {
    if (from < 0 || to < 0 || from >= size || to >= size || from == to) {
      return InvalidInput("operator graph: edge {} -> {} is not between two of its {} operators",
                          from, to, size);
    }
    g.successors_[from].push_back(to);
    g.predecessors_[to].push_back(from);
  }
  for (auto* lists : {&g.successors_, &g.predecessors_}) {
    for (auto& list : *lists) {
      std::sort(list.begin(), list.end());
      list.erase(std::unique(list.begin(), list.end()), list.end());
    }
  }
  std::vector<size_t> missing(static_cast<size_t>(size));
  std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>> ready;
  for (int32_t v = 0; v < size; ++v) {
    missing[v] = g.predecessors_[v].size();
    if (missing[v] == 0) ready.push(v);
  }
  while (!ready.empty()) {
    const int32_t v = ready.top();
    ready.pop();
    g.order_.push_back(v);
    for (const int32_t w : g.successors_[v]) {
      if (--missing[w] == 0) ready.push(w);
    }
  }
  if (g.order_.size() != static_cast<size_t>(size)) {
    return InvalidInput("operator graph: its edges form a cycle");
  }
  return g;
}

OpGraph OpGraph::Reversed() const {
  OpGraph g;
  g.successors_ = predecessors_;
  g.predecessors_ = successors_;
  g.order_.assign(order_.rbegin(), order_.rend());
  return g;
}

absl::StatusOr<DownsetLattice> DownsetLattice::Enumerate(const OpGraph& graph, size_t limit) {
  DownsetLattice lattice;
  lattice.nodes_ = graph.size();
  lattice.words_ = std::max<size_t>(1, (static_cast<size_t>(graph.size()) + 63) / 64);
  const size_t words = lattice.words_;
  lattice.bits_.assign(words, 0);
  absl::flat_hash_set<std::vector<uint64_t>> level;
  size_t begin = 0, end = 1;
  // Level by level in the number of nodes; a set of the next level is made once.
  while (begin < end) {
    level.clear();
    for (size_t set = begin; set < end; ++set) {
      for (int32_t v = 0; v < graph.size(); ++v) {
        if (lattice.Contains(set, v)) continue;
        const auto& needs = graph.predecessors(v);
        if (!std::all_of(needs.begin(), needs.end(),
                         [&](int32_t u) { return lattice.Contains(set, u); })) {
          continue;
        }
        std::vector<uint64_t> key(
            lattice.bits_.begin() + static_cast<ptrdiff_t>(set * words),
            lattice.bits_.begin() + static_cast<ptrdiff_t>((set + 1) * words));
        key[static_cast<size_t>(v) / 64] |= uint64_t{1} << (v % 64);
        const auto [it, fresh] = level.insert(std::move(key));
        if (!fresh) continue;
        lattice.bits_.insert(lattice.bits_.end(), it->begin(), it->end());
        if (lattice.size() > limit) {
          return Infeasible(
              "the operator graph has more than {} downsets (sets of operators that a pipeline "
              "prefix may hold); merge operators, or use a partitioner for series-parallel graphs",
              limit);
        }
      }
    }
    begin = end;
    end = lattice.size();
  }
  return lattice;
}

std::vector<int32_t> DownsetLattice::Difference(size_t inner, size_t outer) const {
  std::vector<int32_t> nodes;
  for (int32_t v = 0; v < nodes_; ++v) {
    if (Contains(outer, v) && !Contains(inner, v)) nodes.push_back(v);
  }
  return nodes;
}

std::vector<double> DownsetLattice::Sums(std::span<const double> weights) const {
  std::vector<double> sums(size(), 0.0);
  for (size_t set = 0; set < sums.size(); ++set) {
    for (int32_t v = 0; v < nodes_; ++v) {
      if (Contains(set, v)) sums[set] += weights[static_cast<size_t>(v)];
    }
  }
  return sums;
}

}  // namespace foretrace
