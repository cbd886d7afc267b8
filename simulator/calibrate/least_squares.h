#pragma once
// Bounded robust least squares from many starts: the solver is Ceres, a module
// (ceres_module.h).

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"

namespace foretrace {

struct ParameterBounds {
  double lower = 0;
  double upper = 0;
};

struct LeastSquaresProblem {
  // Writes residual_count values for the given parameters, which always lie within the bounds (up
  // to the solver's differentiation step). Must be a pure function of them. A residual that is not
  // finite marks the parameters as invalid and the solver steps back.
  using Residuals =
      std::function<void(std::span<const double> parameters, std::span<double> residuals)>;
  Residuals residuals;
  size_t residual_count = 0;
  std::vector<ParameterBounds> bounds;  // one per parameter; lower <= upper, both finite
  // Tried in this order, before the random starts. Clamped into the bounds.
  std::vector<std::vector<double>> starts;
};

struct LeastSquaresOptions {
  // Residual r counts as 2 s^2 (sqrt(1 + (r/s)^2) - 1) instead of r^2: quadratic up to about s,
  // linear beyond, so that outliers do not steer the fit. 0: plain least squares.
  double soft_l1_scale = 0;
  // Starts drawn uniformly within the bounds, from `seed`; the same on every machine.
  int random_starts = 0;
  uint64_t seed = 1;
  int max_iterations = 200;
};

struct LeastSquaresResult {
  std::vector<double> parameters;
  double cost = 0;  // half the sum of (robustified) squared residuals
  int starts_used = 0;
};

// The best of all starts; the earlier start wins a tie. Single-threaded and deterministic: the same
// problem gives the same bits. Errors: no parameters or residuals, bounds that are not finite or in
// the wrong order, a start of another length, no start with finite residuals, the solver cannot be
// loaded.
absl::StatusOr<LeastSquaresResult> SolveLeastSquares(const LeastSquaresProblem& problem,
                                                     const LeastSquaresOptions& options);

}  // namespace foretrace
