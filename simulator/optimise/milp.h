#pragma once
// Mixed-integer linear programs. The solver is CBC, in a module that is loaded by the first program
// that is solved (base/module.h).

#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace foretrace {

inline constexpr double kNoBound = std::numeric_limits<double>::infinity();
// Of values, rows and proofs, relative to the larger of 1 and the number itself; numbers of a
// program should be scaled so that this is nothing to them.
inline constexpr double kMilpTolerance = 1e-6;

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
  double relative_gap = 0;  // (objective - bound) / objective at which it stops
};

enum class MilpStatus : uint8_t {
  kOptimal,     // within the tolerance
  kFeasible,    // a limit, or the allowed gap, ended the search: `bound` says how far it can be off
  kNothing,     // a limit ended the search before there was a solution
  kInfeasible,  // proven
  kUnbounded,
  kCount
};
std::string_view Name(MilpStatus status);

struct MilpSolution {
  MilpStatus status = MilpStatus::kNothing;
  std::vector<double> values;   // of the columns, integers exact; empty without a solution
  double objective = kNoBound;  // of these
  double bound = -kNoBound;     // proven: no solution is below
  int64_t nodes = 0;

  bool found() const { return !values.empty(); }
  // (objective - bound) / |objective|; 0 where optimal, infinite without a solution or bound.
  double gap() const;
};

// The best solution within the limits, `start` at worst. Deterministic. Errors: a start that is
// none (a wrong length, a row or column that it breaks); the solver cannot be loaded.
absl::StatusOr<MilpSolution> SolveMilp(const MilpProblem& problem);

}  // namespace foretrace
