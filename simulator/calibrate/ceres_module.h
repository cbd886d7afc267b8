#pragma once
// What the Ceres module offers. Ceres and what it brings (SuiteSparse, LAPACK, glog) are needed to
// fit alone, so they are in a module that a fit loads (base/module.h).

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace foretrace {

struct CeresProblem {
  // False where the parameters are invalid: the solver steps back.
  std::function<bool(std::span<const double> parameters, std::span<double> residuals)> residuals;
  size_t residual_count = 0;
  std::vector<double> lower, upper;  // one per parameter
  int max_iterations = 0;
};

// The module's one function. Moves `parameters` to a local minimum of the sum of squares, holding
// those listed in `fixed`, which must not be all. Single-threaded and deterministic.
using MinimizeWithCeres = void(const CeresProblem& problem, const std::vector<int>& fixed,
                               std::vector<double>& parameters);
inline constexpr char kMinimizeWithCeres[] = "foretrace_minimize_with_ceres";

}  // namespace foretrace
