#include "simulator/dataflow/pass_bounds.h"

#include <algorithm>
#include <array>
#include <limits>

#include "simulator/dataflow/quantities.h"

namespace foretrace::dataflow {

ShardingProblem::Mask Promising(const ShardingProblem& problem, const System& system,
                                const Formulas& formulas, const Mapping& mapping, RealNs below) {
  const Workload& workload = problem.workload();
  const PassTerms terms(workload, system, formulas, mapping);
  std::vector<double> least;
  double sum = 0;
  for (size_t i = 0; i < workload.kernels.size(); ++i) {
    least.push_back(std::numeric_limits<double>::infinity());
    for (size_t c = 0; c < problem.choices()[i].size(); ++c)
      least[i] = std::min(least[i], terms.Times(i) * terms.SharedNs(i, problem.sharded(i, c)));
    sum += least[i];
  }
  ShardingProblem::Mask mask;
  for (size_t i = 0; i < workload.kernels.size(); ++i) {
    double others = 0;  // of the other pass
    for (size_t k = 0; k < workload.kernels.size(); ++k)
      others += workload.kernels[k].pass != workload.kernels[i].pass ? least[k] : 0;
    mask.emplace_back();
    for (size_t c = 0; c < problem.choices()[i].size(); ++c) {
      const ShardedKernel& k = problem.sharded(i, c);
      const double compute = sum - least[i] + terms.Times(i) * terms.SharedNs(i, k),
                   network = others + terms.Times(i) * terms.NetworkNs(k.reduce_time.ns());
      mask.back().push_back(std::max(compute, network) < below.ns());
    }
  }
  return mask;
}

RealNs LeastPassTime(const ShardingProblem& problem, const System& system, const Formulas& formulas,
                     const Mapping& mapping, Direction pass) {
  const Workload& workload = problem.workload();
  const PassTerms terms(workload, system, formulas, mapping);
  const auto times = [&](size_t i) {
    return workload.kernels[i].pass == pass ? terms.Times(i) : 0;
  };
  double least = 0;
  constexpr std::array<std::array<double, 3>, 4> kShares = {
      {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {0.5, 0, 0.5}}};
  for (const auto& [compute, memory, network] : kShares) {
    ShardingObjective objective;
    objective.kernel = [&](size_t i, const ShardedKernel& k) {
      if (times(i) == 0) return ShardingCost{};
      const double ns = compute * terms.SharedNs(i, k) +
                        memory * (terms.WeightNs(k) + terms.StoredNs(k)) +
                        network * terms.NetworkNs(k.reduce_time.ns());
      return ShardingCost{Picoseconds(times(i) * ns + terms.IterationNs(i, k)), 0};
    };
    objective.tensor = [&](const ShardedTensor& t) {
      const auto from = static_cast<size_t>(t.from);
      return ShardingCost{Picoseconds(times(from) * network * terms.NetworkNs(t.convert_time.ns())),
                          0};
    };
    const ShardingCost cost = problem.CostOf(problem.Solve(objective), objective);
    least = std::max(least, static_cast<double>(cost.ps) * 1e-3);
  }
  const auto rounded = static_cast<double>(workload.kernels.size() + 2 * workload.tensors.size());
  return RealNs(std::max(0.0, least - rounded * 1e-3));
}

}  // namespace foretrace::dataflow
