// Machines that overlap: passes one by one, and shardings that balance their terms.

#include <utility>

#include "simulator/base/status_macros.h"
#include "simulator/dataflow/balanced_shardings.h"
#include "simulator/dataflow/optimiser.h"
#include "simulator/dataflow/pass_bounds.h"
#include "simulator/dataflow/pass_search.h"
#include "simulator/dataflow/pass_terms.h"

namespace foretrace::dataflow {

// Fused partitions that overlap, by utilisation, with none given.
bool Optimiser::PassesApart() const {
  return formulas_.compute_utilisation > 0 && !Alone(system_, limits_) && !limits_.partition_of &&
         system_.chip.max_partitions != 1 && Overlaps(system_, formulas_) &&
         formulas_.iteration == IterationRule::kPhysical &&
         limits_.recompute != Recompute::kSelective;
}

// Passes one by one, each with the shardings and partitions that are best for it.
void Optimiser::BoundPasses(Use& use) const {
  constexpr int64_t kLabels = 60'000;
  const ShardingProblem& problem = ProblemOf(*use.roles);
  const System& system = use.roles->system;
  const PassTerms terms(workload_, system, formulas_, use.mapping);
  const RealNs latency(terms.RepeatedLatencyNs()),
      all = best_ ? (best_->time.total + latency) / terms.passes() : RealNs::Infinite(),
      backward = LeastPassTime(problem, system, formulas_, use.mapping, Direction::kBackward);
  const ShardingProblem::Mask mask = Promising(problem, system, formulas_, use.mapping, all);
  PassFound found = SolvePass(problem, system, formulas_, use.mapping, mask, Direction::kForward,
                              {all - backward, kLabels});
  const RealNs bound = terms.passes() * (found.bound + backward) - latency;
  use.bound = std::max(use.bound, (1 - 1e-12) * bound);
  use.forward = std::move(found.chosen);
}

// Shardings that balance the terms of passes; with the best forward pass, where that is known.
absl::Status Optimiser::AddBalanced(Use& use) {
  const ShardingProblem& problem = ProblemOf(*use.roles);
  const RealNs below = best_ ? best_->time.total : RealNs::Infinite();
  if (use.bound >= below) return absl::OkStatus();
  ShardingProblem::Mask mask;
  for (size_t i = 0; i < workload_.kernels.size(); ++i)
    mask.emplace_back(problem.choices()[i].size(), true);
  std::vector<ShardingProblem::Mask> masks = {mask};
  if (!use.forward.empty()) {
    for (size_t i = 0; i < mask.size(); ++i) {
      if (workload_.kernels[i].pass != Direction::kForward) continue;
      mask[i].assign(mask[i].size(), false);
      mask[i][use.forward[i]] = true;
    }
    masks.push_back(std::move(mask));
  }
  for (const ShardingProblem::Mask& among : masks) {
    BalancedShardings balanced =
        SolveBalanced(problem, use.roles->system, formulas_, use.mapping, among, below);
    if (&among == &masks.front()) use.bound = std::max(use.bound, (1 - 1e-12) * balanced.bound);
    for (Shardings& shardings : balanced.found) {
      Mapping mapping = use.mapping;
      mapping.shardings = std::move(shardings);
      FORETRACE_ASSIGN_OR_RETURN(const MappingCosts costs,
                                 MappingCosts::Create(workload_, system_, formulas_, mapping));
      if (costs.CheckResident().ok())
        use.candidates.emplace_back(costs.LowerBound(false).total, std::move(mapping));
    }
  }
  return absl::OkStatus();
}

// What is found bounds which shardings may be better, and those bound what is to be found.
absl::Status Optimiser::DeepenPasses(Use& use) {
  for (bool better = true; better;) {
    better = false;
    if (best_ && use.bound >= best_->time.total) break;
    BoundPasses(use);
    use.candidates.clear();
    FORETRACE_RETURN_IF_ERROR(AddBalanced(use));
    FORETRACE_ASSIGN_OR_RETURN(Found found, Try(use));
    better = found && (!best_ || found->time.total < best_->time.total);
    if (better) best_ = std::move(found);
  }
  return absl::OkStatus();
}

}  // namespace foretrace::dataflow
