#pragma once
// Cost of one stage under Piper's formulas, and the choice of options within it. What its inner
// loops see are bare numbers of seconds and bytes.

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "simulator/search/piper.h"

namespace foretrace::internal {

// What one option of one node of a stage costs at fixed degrees.
struct PiperChoice {
  double time_s = 0;
  double memory_per_inflight = 0;
  double memory_fixed = 0;
  int32_t option = 0;  // index in the problem
};

struct PiperSelection {
  bool feasible = false;
  double time_s = 0;
  double memory_bytes = 0;
  std::vector<int32_t> choice;  // by node of the stage, index into its list
};

using PiperStageChoices = std::vector<std::vector<PiperChoice>>;

// The problem's usable options, flattened: what Piper's formulas need of each.
struct PiperTables {
  struct Option {
    double time_s = 0, parameter_bytes = 0, memory_per_inflight = 0, memory_fixed = 0;
    int32_t index = 0;  // in the problem
    // Neighbours, with the bytes that count when the edge is cut (both directions of it).
    std::vector<std::pair<int32_t, double>> links;
  };
  explicit PiperTables(const PiperProblem& problem);
  // By node, then tensor-parallel degree.
  std::vector<std::map<int32_t, std::vector<Option>>> nodes;
};

// Empty when some node cannot run at this tensor-parallel degree.
PiperStageChoices StageChoices(const PiperProblem& problem, const PiperTables& tables,
                               const std::vector<int32_t>& nodes, int32_t tensor, int32_t data);

// One option per node so that memory with `in_flight` microbatches fits and time is small: all
// fastest if that fits; else Piper's greedy by time per byte saved, then swaps back while they fit.
PiperSelection SelectOptions(const PiperStageChoices& choices, double memory_bytes,
                             int32_t in_flight);

// Bounds on the time that SelectOptions returns for an in-flight count that fits in memory: the
// fractional knapsack below, its rounding above. Costs a sort instead of a search.
struct PiperBounds {
  double lower_s = 0;
  double upper_s = 0;
};
PiperBounds BoundSelection(const PiperStageChoices& choices, double memory_bytes,
                           int32_t in_flight);

}  // namespace foretrace::internal
