#include "simulator/optimise/cbc_module.h"

#include <CbcModel.hpp>
#include <OsiClpSolverInterface.hpp>

#include <cmath>
#include <type_traits>

namespace foretrace {
namespace {

void Load(const MilpProblem& problem, OsiClpSolverInterface& solver) {
  const double infinity = solver.getInfinity();
  const auto bound = [infinity](double value) {
    return std::isinf(value) ? std::copysign(infinity, value) : value;
  };
  CoinPackedMatrix matrix(false, 0, 0);
  matrix.setDimensions(0, static_cast<int>(problem.columns.size()));
  std::vector<double> low, high, lower, upper, objective;
  for (const MilpRow& row : problem.rows) {
    CoinPackedVector terms;
    for (const auto& [column, coefficient] : row.terms) terms.insert(column, coefficient);
    matrix.appendRow(terms);
    low.push_back(bound(row.lower));
    high.push_back(bound(row.upper));
  }
  for (const MilpColumn& column : problem.columns) {
    lower.push_back(bound(column.lower));
    upper.push_back(bound(column.upper));
    objective.push_back(column.objective);
  }
  solver.loadProblem(matrix, lower.data(), upper.data(), objective.data(), low.data(), high.data());
  for (size_t c = 0; c < problem.columns.size(); ++c) {
    if (problem.columns[c].integer) solver.setInteger(static_cast<int>(c));
  }
}

double Objective(const MilpProblem& problem, const std::vector<double>& values) {
  double sum = 0;
  for (size_t c = 0; c < values.size(); ++c) sum += problem.columns[c].objective * values[c];
  return sum;
}

// The start, where the solver kept none.
void TakeBest(const MilpProblem& problem, const CbcModel& model, MilpSolution& solution) {
  const double* best = model.bestSolution();
  if (best != nullptr) {
    solution.values.assign(best, best + problem.columns.size());
    for (size_t c = 0; c < solution.values.size(); ++c) {
      if (problem.columns[c].integer) solution.values[c] = std::round(solution.values[c]);
    }
  }
  const double started = problem.start.empty() ? kNoBound : Objective(problem, problem.start);
  if (best == nullptr || started < Objective(problem, solution.values)) {
    solution.values = problem.start;
  }
  if (solution.found()) solution.objective = Objective(problem, solution.values);
}

// What ended the search: CbcModel::status and secondaryStatus.
void TakeBound(const CbcModel& model, MilpSolution& solution) {
  constexpr int kFinished = 0, kUnboundedRelaxation = 7;
  const bool finished = model.status() == kFinished;
  if (finished && model.secondaryStatus() == kUnboundedRelaxation) {
    solution.status = MilpStatus::kUnbounded;
    return;
  }
  if (!solution.found()) {
    solution.status = finished ? MilpStatus::kInfeasible : MilpStatus::kNothing;
    if (finished) solution.bound = kNoBound;
  } else {
    solution.status = MilpStatus::kFeasible;
  }
  // 1e50 and the like stand for "none yet".
  const double bound = model.getBestPossibleObjValue();
  if (solution.status != MilpStatus::kInfeasible && std::abs(bound) < 1e49) solution.bound = bound;
}

}  // namespace

extern "C" [[gnu::visibility("default")]] void foretrace_solve_with_cbc(const MilpProblem& problem,
                                                                        MilpSolution& solution) {
  OsiClpSolverInterface solver;
  solver.messageHandler()->setLogLevel(0);
  Load(problem, solver);
  CbcModel model(solver);
  model.setLogLevel(0);
  model.setMaximumNodes(problem.max_nodes);
  model.setAllowableFractionGap(problem.relative_gap);
  if (!problem.start.empty()) {
    model.setBestSolution(problem.start.data(), static_cast<int>(problem.start.size()),
                          Objective(problem, problem.start), true);
  }
  model.branchAndBound();
  solution.nodes = model.getNodeCount();
  TakeBest(problem, model, solution);
  TakeBound(model, solution);
}
static_assert(std::is_same_v<decltype(foretrace_solve_with_cbc), SolveWithCbc>);

}  // namespace foretrace
