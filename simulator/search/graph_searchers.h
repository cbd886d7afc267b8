#pragma once
// Searchers over stage graphs by name. All plans are judged by the same simulation
// (EvaluateStages), whatever formula their searcher minimised.

#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "simulator/search/graphpipe.h"

namespace foretrace {

struct GraphSearchResult {
  GraphPipePlan plan;       // with its simulated iteration
  bool sequential = false;  // its stages form a chain
  RealSeconds estimate;     // of an iteration, by the searcher's own formula
  std::string note;         // what the searcher did to the model, if anything
};

struct GraphSearcher {
  std::string_view name;
  std::string_view what;
  absl::StatusOr<GraphSearchResult> (*run)(const GraphPipeProblem& problem);
};

// Large graphs, and for Piper and Phaze those of many downsets, are searched with operators merged.
// Errors of a searcher: as of its partitioner; infeasible where no plan fits.
std::span<const GraphSearcher> GraphSearchers();

absl::StatusOr<GraphSearchResult> SearchGraphPipe(const GraphPipeProblem& problem);
absl::StatusOr<GraphSearchResult> SearchSequential(const GraphPipeProblem& problem);
absl::StatusOr<GraphSearchResult> SearchPipeDream(const GraphPipeProblem& problem);
absl::StatusOr<GraphSearchResult> SearchPiper(const GraphPipeProblem& problem);
absl::StatusOr<GraphSearchResult> SearchPhaze(const GraphPipeProblem& problem);

}  // namespace foretrace
