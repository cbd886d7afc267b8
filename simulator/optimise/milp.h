#pragma once
// Mixed-integer linear programs. The solver is CBC, in a module that is loaded by the first program
// that is solved (base/module.h).

#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace foretrace {

inline constexpr double kNoBound = std::numeric_limits<double>::infinity();

struct MilpColumn {
  double lower = 0;
  double upper = kNoBound;
  double objective = 0;
  bool integer = false;
};

// lower <= sum of coefficient * column <= upper.
struct MilpRow {
  std::vector<std::pair<int, double>> terms;  // column, coefficient; no column twice
  double lower = -kNoBound;
  double upper = kNoBound;
};

// Minimises the objective.
struct MilpProblem {
  std::vector<MilpColumn> columns;
  std::vector<MilpRow> rows;
  std::vector<double> start;  // a solution to begin with; empty: none
  // Limits of the branch and bound: nodes, never time, so that a result does not depend on the
  // machine's load.
  int max_nodes = 0;
  double relative_gap = 0;
};

// Values of the columns: the best that was found within the limits, `start` at worst; nullopt where
// nothing was. Deterministic. Errors: the solver cannot be loaded.
absl::StatusOr<std::optional<std::vector<double>>> SolveMilp(const MilpProblem& problem);

}  // namespace foretrace
