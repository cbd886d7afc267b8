#pragma once
// What the CBC module offers; rules of modules: base/module.h.

#include <optional>
#include <vector>

#include "simulator/optimise/milp.h"

namespace foretrace {

// The module's one function.
using SolveWithCbc = void(const MilpProblem& problem, std::optional<std::vector<double>>& solution);
inline constexpr char kSolveWithCbc[] = "foretrace_solve_with_cbc";

}  // namespace foretrace
