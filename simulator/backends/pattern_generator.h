#pragma once
// Which parts of a graph a backend can run as one kernel (Collage, section 2.3 and figure 2.4).

#include <string>
#include <vector>

#include "simulator/backends/backend.h"
#include "simulator/backends/operator_view.h"

namespace foretrace {

// Operators that one kernel of a backend runs; ascending, read from outside at the last one alone.
struct BackendMatch {
  int32_t backend = 0;
  std::vector<int32_t> ops;
  bool operator==(const BackendMatch&) const = default;
};

// A pattern that fits at an operator but for the reason given.
struct RefusedMatch {
  int32_t backend = 0;
  int32_t root = 0;
  std::string why;
};

struct GeneratedMatches {
  std::vector<BackendMatch> matches;  // each once, by backend, then by operators
  std::vector<RefusedMatch> refused;
};

// Explicit patterns at every operator, and every prefix along the chain of post-dominators for as
// long as the fusion rule holds.
GeneratedMatches GenerateMatches(const OperatorView& dag, const std::vector<Backend>& backends);

// By operator: its immediate post-dominator, the first operator that every path from it to a result
// of the graph passes; -1: none (a result, or paths end apart).
std::vector<int32_t> PostDominators(const OperatorView& dag);

}  // namespace foretrace
