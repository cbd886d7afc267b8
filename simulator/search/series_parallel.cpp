#include "simulator/search/series_parallel.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "simulator/base/check.h"

namespace foretrace {
namespace {

using Node = SeriesParallelNode;
using Part = std::vector<int32_t>;  // operators in topological order

class Decomposer {
 public:
  explicit Decomposer(const OpGraph& graph)
      : graph_(graph), rank_(static_cast<size_t>(graph.size())), part_of_(rank_.size(), -1) {
    for (size_t i = 0; i < rank_.size(); ++i) {
      rank_[static_cast<size_t>(graph.topological_order()[i])] = static_cast<int32_t>(i);
    }
  }

  SeriesParallelTree Run() {
    const auto order = graph_.topological_order();
    SeriesParallelTree tree;
    tree.root = Split(Part(order.begin(), order.end()));
    tree.linearised = linearised_;
    return tree;
  }

 private:
  static Node Leaf(int32_t op) { return {Node::Kind::kOperator, op, {}}; }

  // Depth of recursion: every level removes an operator or splits components; series parts hold at
  // least one cut operator less than their parent.
  Node Split(const Part& part) {
    FORETRACE_CHECK(!part.empty());
    if (part.size() == 1) return Leaf(part[0]);
    std::vector<Part> components = Components(part);
    if (components.size() > 1) {
      Node node{Node::Kind::kParallel, -1, {}};
      for (const Part& c : components) node.children.push_back(Split(c));
      return node;
    }
    const std::vector<size_t> cuts = Cuts(part);
    Node node{Node::Kind::kSeries, -1, {}};
    if (cuts.empty()) {
      linearised_ += static_cast<int32_t>(part.size());
      for (const int32_t v : part) node.children.push_back(Leaf(v));
      return node;
    }
    size_t begin = 0;
    for (const size_t cut : cuts) {
      if (cut > begin) {
        AppendSeries(node, Split(Part(part.begin() + static_cast<ptrdiff_t>(begin),
                                      part.begin() + static_cast<ptrdiff_t>(cut))));
      }
      node.children.push_back(Leaf(part[cut]));
      begin = cut + 1;
    }
    if (begin < part.size()) {
      AppendSeries(node, Split(Part(part.begin() + static_cast<ptrdiff_t>(begin), part.end())));
    }
    return node;
  }

  static void AppendSeries(Node& series, Node child) {
    if (child.kind == Node::Kind::kSeries) {
      for (Node& c : child.children) series.children.push_back(std::move(c));
    } else {
      series.children.push_back(std::move(child));
    }
  }

  void Mark(const Part& part) {
    ++stamp_;
    for (const int32_t v : part) part_of_[static_cast<size_t>(v)] = stamp_;
  }
  bool InPart(int32_t v) const { return part_of_[static_cast<size_t>(v)] == stamp_; }

  std::vector<Part> Components(const Part& part) {
    Mark(part);
    std::vector<int32_t> component(rank_.size(), -1);
    int32_t count = 0;
    for (const int32_t root : part) {
      if (component[static_cast<size_t>(root)] >= 0) continue;
      std::vector<int32_t> stack = {root};
      component[static_cast<size_t>(root)] = count;
      while (!stack.empty()) {
        const int32_t v = stack.back();
        stack.pop_back();
        for (const auto& list : {graph_.successors(v), graph_.predecessors(v)}) {
          for (const int32_t w : list) {
            if (!InPart(w) || component[static_cast<size_t>(w)] >= 0) continue;
            component[static_cast<size_t>(w)] = count;
            stack.push_back(w);
          }
        }
      }
      ++count;
    }
    std::vector<Part> parts(static_cast<size_t>(count));
    for (const int32_t v : part) {
      parts[static_cast<size_t>(component[static_cast<size_t>(v)])].push_back(v);
    }
    return parts;
  }

  // Positions of operators that are ordered with respect to all others of the part.
  std::vector<size_t> Cuts(const Part& part) {
    Mark(part);
    const size_t n = part.size();
    std::vector<size_t> cuts;
    // v at position i is comparable to all iff it reaches all later ones and all earlier reach it.
    for (size_t i = 0; i < n; ++i) {
      if (Reached(part, i, true) == n - i && Reached(part, i, false) == i + 1) cuts.push_back(i);
    }
    return cuts;
  }

  size_t Reached(const Part& part, size_t from, bool forward) {
    std::vector<char> seen(rank_.size(), 0);
    std::vector<int32_t> stack = {part[from]};
    seen[static_cast<size_t>(part[from])] = 1;
    size_t count = 1;
    while (!stack.empty()) {
      const int32_t v = stack.back();
      stack.pop_back();
      for (const int32_t w : forward ? graph_.successors(v) : graph_.predecessors(v)) {
        if (!InPart(w) || seen[static_cast<size_t>(w)]) continue;
        seen[static_cast<size_t>(w)] = 1;
        ++count;
        stack.push_back(w);
      }
    }
    return count;
  }

  const OpGraph& graph_;
  std::vector<int32_t> rank_;
  std::vector<int32_t> part_of_;
  int32_t stamp_ = 0;
  int32_t linearised_ = 0;
};

}  // namespace

SeriesParallelTree DecomposeSeriesParallel(const OpGraph& graph) { return Decomposer(graph).Run(); }

}  // namespace foretrace
