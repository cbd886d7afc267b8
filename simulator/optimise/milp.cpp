#include "simulator/optimise/milp.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"
#include "simulator/base/module.h"
#include "simulator/base/status_macros.h"
#include "simulator/optimise/cbc_module.h"

namespace foretrace {
namespace {

double Tolerance(double number) { return kMilpTolerance * std::max(1.0, std::abs(number)); }

bool Within(double value, double lower, double upper) {
  return value >= lower - (std::isinf(lower) ? 0 : Tolerance(lower)) &&
         value <= upper + (std::isinf(upper) ? 0 : Tolerance(upper));
}

absl::Status CheckStart(const MilpProblem& problem) {
  const std::vector<double>& start = problem.start;
  if (start.size() != problem.columns.size()) {
    return InvalidInput("integer program: a start of {} values for {} columns", start.size(),
                        problem.columns.size());
  }
  for (size_t c = 0; c < start.size(); ++c) {
    const MilpColumn& column = problem.columns[c];
    const bool whole =
        !column.integer || std::abs(start[c] - std::round(start[c])) <= kMilpTolerance;
    if (!whole || !Within(start[c], column.lower, column.upper)) {
      return InvalidInput("integer program: the start has {} for column {}, which is {} to {}{}",
                          start[c], c, column.lower, column.upper,
                          column.integer ? " in whole numbers" : "");
    }
  }
  for (size_t r = 0; r < problem.rows.size(); ++r) {
    const MilpRow& row = problem.rows[r];
    double sum = 0;
    for (const auto& [column, coefficient] : row.terms) {
      sum += coefficient * start[static_cast<size_t>(column)];
    }
    if (!Within(sum, row.lower, row.upper)) {
      return InvalidInput("integer program: the start makes row {} {}, which is {} to {}", r, sum,
                          row.lower, row.upper);
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string_view Name(MilpStatus status) {
  static constexpr std::array<std::string_view, 5> kNames = {"optimal", "feasible", "nothing",
                                                             "infeasible", "unbounded"};
  return EnumName(kNames, status);
}

double MilpSolution::gap() const {
  if (status == MilpStatus::kOptimal || objective == bound) return 0;
  if (!found() || std::isinf(bound)) return kNoBound;
  return objective == 0 ? kNoBound : (objective - bound) / std::abs(objective);
}

absl::StatusOr<MilpSolution> SolveMilp(const MilpProblem& problem) {
  if (!problem.start.empty()) FORETRACE_RETURN_IF_ERROR(CheckStart(problem));
  FORETRACE_ASSIGN_OR_RETURN(void* const symbol, LoadModule("cbc", kSolveWithCbc));
  MilpSolution solution;
  reinterpret_cast<SolveWithCbc*>(symbol)(problem, solution);
  if (solution.found() && solution.bound >= solution.objective - Tolerance(solution.objective)) {
    solution.status = MilpStatus::kOptimal;
    solution.bound = std::min(solution.bound, solution.objective);
  }
  return solution;
}

}  // namespace foretrace
