#include "simulator/calibrate/ceres_module.h"

#include <ceres/dynamic_numeric_diff_cost_function.h>
#include <ceres/manifold.h>
#include <ceres/problem.h>
#include <ceres/solver.h>

#include <algorithm>
#include <memory>
#include <type_traits>

namespace foretrace {
namespace {

class Evaluator {
 public:
  explicit Evaluator(const CeresProblem& problem) : problem_(problem) {}

  bool operator()(double const* const* parameters, double* residuals) const {
    return problem_.residuals({parameters[0], problem_.lower.size()},
                              {residuals, problem_.residual_count});
  }

 private:
  const CeresProblem& problem_;
};

}  // namespace

extern "C" [[gnu::visibility("default")]] void foretrace_minimize_with_ceres(
    const CeresProblem& problem, const std::vector<int>& fixed, std::vector<double>& parameters) {
  auto cost_function =
      std::make_unique<ceres::DynamicNumericDiffCostFunction<Evaluator, ceres::CENTRAL>>(
          new Evaluator(problem));
  cost_function->AddParameterBlock(static_cast<int>(parameters.size()));
  cost_function->SetNumResiduals(static_cast<int>(problem.residual_count));
  ceres::Problem solver_problem;
  solver_problem.AddResidualBlock(cost_function.release(), nullptr, parameters.data());
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto index = static_cast<int>(i);
    if (std::find(fixed.begin(), fixed.end(), index) != fixed.end()) continue;
    solver_problem.SetParameterLowerBound(parameters.data(), index, problem.lower[i]);
    solver_problem.SetParameterUpperBound(parameters.data(), index, problem.upper[i]);
  }
  if (!fixed.empty()) {
    solver_problem.SetManifold(
        parameters.data(), new ceres::SubsetManifold(static_cast<int>(parameters.size()), fixed));
  }
  ceres::Solver::Options options;
  options.linear_solver_type = ceres::DENSE_QR;
  options.dense_linear_algebra_library_type = ceres::EIGEN;
  options.num_threads = 1;
  options.max_num_iterations = problem.max_iterations;
  options.function_tolerance = 1e-9;
  options.logging_type = ceres::SILENT;
  // Wall-clock never decides when to stop: results would depend on the machine's load.
  options.max_solver_time_in_seconds = 1e9;
  ceres::Solver::Summary summary;
  ceres::Solve(options, &solver_problem, &summary);
}
static_assert(std::is_same_v<decltype(foretrace_minimize_with_ceres), MinimizeWithCeres>);

}  // namespace foretrace
