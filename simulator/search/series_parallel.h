#pragma once
// A graph of operators as a tree of series and parallel compositions.

#include <cstdint>
#include <vector>

#include "simulator/search/op_graph.h"

namespace foretrace {

struct SeriesParallelNode {
  enum class Kind : uint8_t { kOperator, kSeries, kParallel };
  Kind kind = Kind::kOperator;
  int32_t op = -1;                           // of a kOperator
  std::vector<SeriesParallelNode> children;  // of the others, at least two
};

struct SeriesParallelTree {
  SeriesParallelNode root;
  // Operators that had to be put in a line although the graph leaves their order open, because the
  // part of the graph around them is not series-parallel. 0: the tree is the graph.
  int32_t linearised = 0;
};

// Splits into connected parts (parallel) and at operators that are ordered with respect to all
// others (series), again and again. Where neither is possible the part is put in topological order,
// which adds order but changes no arithmetic (GraphPipe, section 3.5: graphs that are not
// series-parallel are converted to ones that are). The graph must not be empty.
SeriesParallelTree DecomposeSeriesParallel(const OpGraph& graph);

}  // namespace foretrace
