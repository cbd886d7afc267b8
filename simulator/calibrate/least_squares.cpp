#include "simulator/calibrate/least_squares.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/base/module.h"
#include "simulator/base/split_mix.h"
#include "simulator/base/status_macros.h"
#include "simulator/calibrate/ceres_module.h"

namespace foretrace {
namespace {

// Applies the soft-L1 loss to each residual by itself (Ceres would apply a loss to a whole block).
double Robustify(double residual, double scale) {
  if (scale <= 0) return residual;
  const double ratio = residual / scale;
  // 2 (sqrt(1 + x^2) - 1) without cancellation for small x.
  const double loss = 2 * ratio * ratio / (std::sqrt(1 + ratio * ratio) + 1);
  return std::copysign(scale * std::sqrt(loss), residual);
}

// False where a residual is not finite.
bool Robustified(const LeastSquaresProblem& problem, double scale,
                 std::span<const double> parameters, std::span<double> residuals) {
  problem.residuals(parameters, residuals);
  for (double& residual : residuals) {
    if (!std::isfinite(residual)) return false;
    residual = Robustify(residual, scale);
  }
  return true;
}

absl::Status CheckProblem(const LeastSquaresProblem& problem) {
  if (problem.bounds.empty() || problem.residual_count == 0 || !problem.residuals) {
    return InvalidInput("fit: needs at least one parameter and one residual");
  }
  for (size_t i = 0; i < problem.bounds.size(); ++i) {
    const auto [lower, upper] = problem.bounds[i];
    if (!std::isfinite(lower) || !std::isfinite(upper) || lower > upper) {
      return InvalidInput("fit: bounds [{}, {}] of parameter {} are not a finite interval", lower,
                          upper, i);
    }
  }
  for (const auto& start : problem.starts) {
    if (start.size() != problem.bounds.size()) {
      return InvalidInput("fit: a start has {} values for {} parameters", start.size(),
                          problem.bounds.size());
    }
  }
  return absl::OkStatus();
}

std::vector<std::vector<double>> AllStarts(const LeastSquaresProblem& problem,
                                           const LeastSquaresOptions& options) {
  std::vector<std::vector<double>> starts = problem.starts;
  for (auto& start : starts) {
    for (size_t i = 0; i < start.size(); ++i) {
      start[i] = std::clamp(start[i], problem.bounds[i].lower, problem.bounds[i].upper);
    }
  }
  SplitMixSequence random(options.seed);
  for (int n = 0; n < options.random_starts; ++n) {
    std::vector<double>& start = starts.emplace_back();
    for (const auto& [lower, upper] : problem.bounds) {
      start.push_back(lower + (upper - lower) * random.Uniform());
    }
  }
  return starts;
}

// Half the sum of squares; nullopt where a residual is not finite.
std::optional<double> Cost(const LeastSquaresProblem& problem, double scale,
                           const std::vector<double>& parameters) {
  std::vector<double> residuals(problem.residual_count);
  if (!Robustified(problem, scale, parameters, residuals)) return std::nullopt;
  double cost = 0;
  for (double residual : residuals) cost += residual * residual;
  return 0.5 * cost;
}

using Minimize =
    std::function<void(const std::vector<int>& fixed, std::vector<double>& parameters)>;

std::vector<int> AtBound(const LeastSquaresProblem& problem, const std::vector<double>& parameters,
                         bool only_constants) {
  std::vector<int> fixed;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto [lower, upper] = problem.bounds[i];
    const double margin = only_constants ? 0 : 1e-9 * (upper - lower);
    const bool at_bound = parameters[i] <= lower + margin || parameters[i] >= upper - margin;
    if (only_constants ? lower == upper : at_bound) fixed.push_back(static_cast<int>(i));
  }
  return fixed;
}

// Cost after the solver has run from `parameters`, which it moves; nullopt when it cannot start.
// Ceres projects its steps onto the box, which stalls once a parameter lies on a bound; so the rest
// is solved again with those parameters held, and then all together, while that helps.
std::optional<double> SolveFrom(const LeastSquaresProblem& problem, double scale,
                                const Minimize& minimize, std::vector<double>& parameters) {
  if (!Cost(problem, scale, parameters)) return std::nullopt;
  const std::vector<int> constants = AtBound(problem, parameters, /*only_constants=*/true);
  minimize(constants, parameters);
  std::optional<double> cost = Cost(problem, scale, parameters);
  constexpr int kMaxRounds = 2;
  for (int round = 0; round < kMaxRounds && cost; ++round) {
    const std::vector<int> fixed = AtBound(problem, parameters, /*only_constants=*/false);
    if (fixed.size() == constants.size()) break;
    std::vector<double> next = parameters;
    minimize(fixed, next);
    minimize(constants, next);
    const std::optional<double> next_cost = Cost(problem, scale, next);
    if (!next_cost || *next_cost >= *cost * (1 - 1e-4)) break;
    parameters = std::move(next);
    cost = next_cost;
  }
  return cost;
}

}  // namespace

absl::StatusOr<LeastSquaresResult> SolveLeastSquares(const LeastSquaresProblem& problem,
                                                     const LeastSquaresOptions& options) {
  FORETRACE_RETURN_IF_ERROR(CheckProblem(problem));
  FORETRACE_ASSIGN_OR_RETURN(void* const symbol, LoadModule("ceres", kMinimizeWithCeres));
  const auto minimize_with_ceres = reinterpret_cast<MinimizeWithCeres*>(symbol);
  const double scale = options.soft_l1_scale;
  CeresProblem ceres;
  ceres.residuals = [&problem, scale](std::span<const double> parameters,
                                      std::span<double> residuals) {
    return Robustified(problem, scale, parameters, residuals);
  };
  ceres.residual_count = problem.residual_count;
  ceres.max_iterations = options.max_iterations;
  for (const auto& [lower, upper] : problem.bounds) {
    ceres.lower.push_back(lower);
    ceres.upper.push_back(upper);
  }
  const Minimize minimize = [&](const std::vector<int>& fixed, std::vector<double>& parameters) {
    if (fixed.size() < parameters.size()) minimize_with_ceres(ceres, fixed, parameters);
  };
  LeastSquaresResult best;
  for (std::vector<double>& parameters : AllStarts(problem, options)) {
    const std::optional<double> cost = SolveFrom(problem, scale, minimize, parameters);
    if (!cost) continue;
    if (best.starts_used++ == 0 || *cost < best.cost) {
      best.cost = *cost;
      best.parameters = std::move(parameters);
    }
  }
  if (best.starts_used == 0) {
    return InvalidInput("fit: no start gives finite residuals");
  }
  return best;
}

}  // namespace foretrace
