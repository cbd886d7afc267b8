#include "simulator/optimise/milp.h"

#include "simulator/base/module.h"
#include "simulator/base/status_macros.h"
#include "simulator/optimise/cbc_module.h"

namespace foretrace {

absl::StatusOr<std::optional<std::vector<double>>> SolveMilp(const MilpProblem& problem) {
  FORETRACE_ASSIGN_OR_RETURN(void* const symbol, LoadModule("cbc", kSolveWithCbc));
  std::optional<std::vector<double>> solution;
  reinterpret_cast<SolveWithCbc*>(symbol)(problem, solution);
  return solution;
}

}  // namespace foretrace
