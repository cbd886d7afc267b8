#include "simulator/cost/fitting/least_squares.h"

#include <ceres/dynamic_numeric_diff_cost_function.h>
#include <ceres/manifold.h>
#include <ceres/problem.h>
#include <ceres/solver.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "simulator/base/error.h"

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

class Evaluator {
 public:
  Evaluator(const LeastSquaresProblem& problem, double scale) : problem_(problem), scale_(scale) {}

  bool operator()(double const* const* parameters, double* residuals) const {
    const std::span<double> out(residuals, problem_.residual_count);
    problem_.residuals({parameters[0], problem_.bounds.size()}, out);
    for (double& residual : out) {
      if (!std::isfinite(residual)) return false;
      residual = Robustify(residual, scale_);
    }
    return true;
  }

 private:
  const LeastSquaresProblem& problem_;
  double scale_;
};

// SplitMix64 (Steele, Lea, Flood 2014). std::uniform_real_distribution is not the same on every
// standard library.
class UniformSequence {
 public:
  explicit UniformSequence(uint64_t seed) : state_(seed) {}
  double Next() {
    state_ += 0x9e3779b97f4a7c15;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    z ^= z >> 31;
    return static_cast<double>(z >> 11) * 0x1.0p-53;
  }

 private:
  uint64_t state_;
};

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
  UniformSequence uniform(options.seed);
  for (int n = 0; n < options.random_starts; ++n) {
    std::vector<double>& start = starts.emplace_back();
    for (const auto& [lower, upper] : problem.bounds) {
      start.push_back(lower + (upper - lower) * uniform.Next());
    }
  }
  return starts;
}

// Half the sum of squares; nullopt where a residual is not finite.
std::optional<double> Cost(const LeastSquaresProblem& problem, const Evaluator& evaluator,
                           const std::vector<double>& parameters) {
  std::vector<double> residuals(problem.residual_count);
  const double* block = parameters.data();
  if (!evaluator(&block, residuals.data())) return std::nullopt;
  double cost = 0;
  for (double residual : residuals) cost += residual * residual;
  return 0.5 * cost;
}

// Moves `parameters` to a minimum, holding those listed in `fixed`.
void RunSolver(const LeastSquaresProblem& problem, const LeastSquaresOptions& options,
               const Evaluator& evaluator, const std::vector<int>& fixed,
               std::vector<double>& parameters) {
  if (fixed.size() == parameters.size()) return;
  auto cost_function =
      std::make_unique<ceres::DynamicNumericDiffCostFunction<Evaluator, ceres::CENTRAL>>(
          new Evaluator(evaluator));
  cost_function->AddParameterBlock(static_cast<int>(parameters.size()));
  cost_function->SetNumResiduals(static_cast<int>(problem.residual_count));
  ceres::Problem solver_problem;
  solver_problem.AddResidualBlock(cost_function.release(), nullptr, parameters.data());
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto index = static_cast<int>(i);
    if (std::find(fixed.begin(), fixed.end(), index) != fixed.end()) continue;
    solver_problem.SetParameterLowerBound(parameters.data(), index, problem.bounds[i].lower);
    solver_problem.SetParameterUpperBound(parameters.data(), index, problem.bounds[i].upper);
  }
  if (!fixed.empty()) {
    solver_problem.SetManifold(
        parameters.data(), new ceres::SubsetManifold(static_cast<int>(parameters.size()), fixed));
  }
  ceres::Solver::Options solver_options;
  solver_options.linear_solver_type = ceres::DENSE_QR;
  solver_options.dense_linear_algebra_library_type = ceres::EIGEN;
  solver_options.num_threads = 1;
  solver_options.max_num_iterations = options.max_iterations;
  solver_options.function_tolerance = 1e-9;
  solver_options.logging_type = ceres::SILENT;
  // Wall-clock never decides when to stop: results would depend on the machine's load.
  solver_options.max_solver_time_in_seconds = 1e9;
  ceres::Solver::Summary summary;
  ceres::Solve(solver_options, &solver_problem, &summary);
}

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
std::optional<double> SolveFrom(const LeastSquaresProblem& problem,
                                const LeastSquaresOptions& options,
                                std::vector<double>& parameters) {
  const Evaluator evaluator(problem, options.soft_l1_scale);
  if (!Cost(problem, evaluator, parameters)) return std::nullopt;
  const std::vector<int> constants = AtBound(problem, parameters, /*only_constants=*/true);
  RunSolver(problem, options, evaluator, constants, parameters);
  std::optional<double> cost = Cost(problem, evaluator, parameters);
  constexpr int kMaxRounds = 2;
  for (int round = 0; round < kMaxRounds && cost; ++round) {
    const std::vector<int> fixed = AtBound(problem, parameters, /*only_constants=*/false);
    if (fixed.size() == constants.size()) break;
    std::vector<double> next = parameters;
    RunSolver(problem, options, evaluator, fixed, next);
    RunSolver(problem, options, evaluator, constants, next);
    const std::optional<double> next_cost = Cost(problem, evaluator, next);
    if (!next_cost || *next_cost >= *cost * (1 - 1e-4)) break;
    parameters = std::move(next);
    cost = next_cost;
  }
  return cost;
}

}  // namespace

absl::StatusOr<LeastSquaresResult> SolveLeastSquares(const LeastSquaresProblem& problem,
                                                     const LeastSquaresOptions& options) {
  if (absl::Status status = CheckProblem(problem); !status.ok()) return status;
  LeastSquaresResult best;
  for (std::vector<double>& parameters : AllStarts(problem, options)) {
    const std::optional<double> cost = SolveFrom(problem, options, parameters);
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
