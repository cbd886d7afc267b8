#pragma once
// Nodes of a rank lane by lane, each in order of row; a detail of the compiler.

#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "simulator/trace/rank_trace.h"

namespace foretrace {

class LaneLists {
 public:
  // Takes the nodes for which `chosen` is true.
  template <typename Chosen>
  LaneLists(const RankTrace& rank, const Chosen& chosen) : begin_(rank.lanes().size() + 1, 0) {
    for (uint32_t i = 0; i < rank.size(); ++i) {
      if (chosen(NodeIndex(i))) ++begin_[rank.lane(NodeIndex(i)).value + 1];
    }
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    nodes_.resize(begin_.back());
    std::vector<uint32_t> next(begin_.begin(), begin_.end() - 1);
    for (uint32_t i = 0; i < rank.size(); ++i) {
      if (chosen(NodeIndex(i))) nodes_[next[rank.lane(NodeIndex(i)).value]++] = NodeIndex(i);
    }
  }
  std::span<const NodeIndex> of(LaneIndex lane) const {
    return {nodes_.data() + begin_[lane.value], nodes_.data() + begin_[lane.value + 1]};
  }
  size_t size() const { return nodes_.size(); }

 private:
  std::vector<uint32_t> begin_;
  std::vector<NodeIndex> nodes_;
};

}  // namespace foretrace
