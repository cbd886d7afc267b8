#pragma once
// The calls of one iteration of a recording that do device work, as backends see them; a detail of
// traced_placement.h.

#include <vector>

#include "simulator/backends/operator_view.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

struct TracedRegions {
  OperatorView dag;
  std::vector<std::vector<NodeIndex>> kernels;  // by operator, in order of issue
  std::vector<SimTime> recorded;                // by operator: all of its kernels
  std::vector<bool> forward;                    // by operator: of the forward pass
  bool trains = false;                          // has a backward pass
  bool by_storage = false;  // who reads what is known; else neighbours of fitting shapes
};

// Operators are the innermost framework calls whose work is known from their shapes and that
// launched kernels; backward passes have types ending in _backward, but for GEMMs. Empty where
// there are none.
TracedRegions RegionsOf(const TraceStore& store, const RankTrace& rank, int64_t iteration);

// Numbers of the iterations that regions can be of.
std::vector<int64_t> IterationsOf(const TraceStore& store, const RankTrace& rank);

}  // namespace foretrace
