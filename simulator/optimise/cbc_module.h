#pragma once
// What the CBC module offers; rules of modules: base/module.h.

#include "simulator/optimise/milp.h"

namespace foretrace {

// The module's one function. `problem.start` is a solution or empty.
using SolveWithCbc = void(const MilpProblem& problem, MilpSolution& solution);
inline constexpr char kSolveWithCbc[] = "foretrace_solve_with_cbc";

}  // namespace foretrace
