#pragma once
// Smaller graphs for the partitioners: of fewer operators, and with fewer downsets, whose number
// grows exponentially with branches.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "simulator/search/graphpipe.h"

namespace foretrace {

struct CoarseProblem {
  GraphPipeProblem problem;
  std::vector<std::vector<int32_t>> members;  // by its operator, of the original
};

// Operators with the same entry of `group`, the index of one of them, become one; in the order of
// the first of each.
CoarseProblem MergeGroups(const GraphPipeProblem& problem, const std::vector<int32_t>& group);

constexpr size_t kAnyDownsets = ~size_t{0};

// Contracts the operators with the least work into the neighbour that they exchange most with,
// never so that a cycle arises, until the graph has at most so many operators and downsets.
// Operators of equal work are contracted together, so that equal branches stay equal. Unchanged
// where it is small enough.
CoarseProblem Coarsen(const GraphPipeProblem& problem, size_t operators, size_t downsets);

}  // namespace foretrace
