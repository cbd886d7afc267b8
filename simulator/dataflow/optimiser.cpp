#include "simulator/dataflow/optimiser.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/dataflow/partition_program.h"
#include "simulator/dataflow/pass_terms.h"

namespace foretrace::dataflow {
namespace {

// With the bound of all partitionings where there are too many to look at each.
absl::StatusOr<Partitioning> PartitionsOf(const Workload& workload, const MappingCosts& costs,
                                          const SearchLimits& limits) {
  return limits.partition_of
             ? EvaluatePartitions(workload, costs.partitions(), *limits.partition_of)
             : SolvePartitions(workload, costs.partitions(), costs.limits());
}

}  // namespace

bool Alone(const System& system, const SearchLimits& limits) {
  return system.chip.execution == Execution::kKernelByKernel && !limits.partition_of;
}

absl::StatusOr<MappedWorkload> Optimiser::Solve() {
  const auto later = [&](size_t a, size_t b) {
    return uses_[a].bound != uses_[b].bound ? uses_[a].bound > uses_[b].bound : a > b;
  };
  std::priority_queue<size_t, std::vector<size_t>, decltype(later)> open(later);
  for (size_t i = 0; i < uses_.size(); ++i) open.push(i);
  while (!open.empty()) {
    const size_t next = open.top();
    Use& use = uses_[next];
    open.pop();
    if (best_ && use.bound >= best_->time.total) break;
    FORETRACE_RETURN_IF_ERROR(Deepen(use));
    if (use.depth != Depth::kDone) open.push(next);
  }
  return Take();
}

absl::Status Optimiser::Deepen(Use& use) {
  switch (use.depth) {
    case Depth::kKernels:
      use.depth = Depth::kPartitions;
      return Alone(system_, limits_) ? absl::OkStatus() : BoundPartitions(use);
    case Depth::kPartitions:
      use.depth = Depth::kCandidates;
      return AddCandidates(use, 0);
    default:
      break;
  }
  use.depth = Depth::kDone;
  for (const int nodes : {0, 256}) {
    // The first round's candidates are those that led here; the second proves them the best.
    if (nodes > 0) FORETRACE_RETURN_IF_ERROR(AddCandidates(use, nodes));
    FORETRACE_ASSIGN_OR_RETURN(Found found, Try(use));
    if (found && (!best_ || found->time.total < best_->time.total)) best_ = std::move(found);
    const bool proven = best_ && use.bound >= best_->time.total;
    if (!use.open || proven || !Alone(system_, limits_)) break;
  }
  return use.open && PassesApart() ? DeepenPasses(use) : absl::OkStatus();
}

// The fastest partitioning if each kernel had the least of all its shardings.
absl::Status Optimiser::BoundPartitions(Use& use) {
  if (use.bound == RealNs::Infinite()) return absl::OkStatus();
  FORETRACE_ASSIGN_OR_RETURN(
      const MappingCosts least,
      MappingCosts::CreateLeast(workload_, system_, formulas_, use.mapping, use.roles->shares));
  const auto partitioning = PartitionsOf(workload_, least, limits_);
  if (!partitioning.ok()) return absl::OkStatus();
  const bool exact = limits_.partition_of || partitioning->bound >= partitioning->time;
  const RealNs time = exact ? partitioning->time : partitioning->bound;
  const PassTime pass = exact ? least.PassOf(*partitioning) : PassTime{time, {}, {}};
  // Sums of the same terms in another order.
  use.bound = std::max(use.bound, (1 - 1e-12) * least.TimeOf(pass).total);
  return absl::OkStatus();
}

ShardingCandidates Optimiser::CandidatesOf(const Use& use, int nodes) const {
  ShardingCandidates only;
  if (limits_.shardings) {
    only.shardings = {*limits_.shardings};
  } else if (limits_.megatron != SearchLimits::Megatron::kNo && use.mapping.tensor > 1) {
    only.shardings = {limits_.megatron == SearchLimits::Megatron::kTensor
                          ? MegatronShardings(workload_)
                          : SequenceParallelShardings(workload_, use.mapping.tensor)};
  } else {
    CandidateSearch search = {Alone(system_, limits_), limits_.every, nodes};
    if (best_) search.below = best_->time.total;
    return SolveCandidates(ProblemOf(*use.roles), use.roles->system, formulas_, use.mapping,
                           search);
  }
  return only;
}

absl::Status Optimiser::AddCandidates(Use& use, int nodes) {
  std::optional<ShardingCandidates>& same = use.roles->candidates;
  if (!same || !SameForEveryMicroBatch(use.roles->system, formulas_))
    same = CandidatesOf(use, nodes);
  const ShardingCandidates& candidates = *same;
  const bool alone = Alone(system_, limits_);
  use.only = !candidates.sample_bound;
  use.open = !use.only;
  use.candidates.clear();
  RealNs least_bound = RealNs::Infinite();
  for (size_t i = 0; i < candidates.shardings.size(); ++i) {
    Mapping mapping = use.mapping;
    mapping.shardings = candidates.shardings[i];
    FORETRACE_ASSIGN_OR_RETURN(const MappingCosts costs,
                               MappingCosts::Create(workload_, system_, formulas_, mapping));
    const IterationTime bound = costs.LowerBound(alone);
    const absl::Status fits = costs.CheckResident();
    if (use.open && i == 0) {
      // Where transfers take longer than a stage, time is no sum over kernels.
      const auto stages = static_cast<double>(mapping.pipeline);
      const auto chunks = static_cast<double>(mapping.scheme.chunks);
      const bool hidden =
          bound.bubble.ns() <= (stages - 1) / chunks * bound.stage.ns() * (1 + 1e-12);
      const bool least = candidates.least && hidden;
      use.open = !least || (!fits.ok() && !candidates.fitting);
      const RealNs any = least ? bound.total + (fits.ok() ? RealNs() : candidates.excess)
                               : costs.Bound(mapping.micro_batch * *candidates.sample_bound);
      use.bound = std::max(use.bound, any);
    }
    // The fastest of those that fit.
    if (!use.open && candidates.fitting == i) use.bound = bound.total;
    if (fits.ok()) {
      use.candidates.emplace_back(bound.total, mapping);
      least_bound = std::min(least_bound, bound.total);
    } else if (costs.ResidentBytes() < least_resident_) {
      least_resident_ = costs.ResidentBytes();
      nearest_ = fits;
    }
  }
  if (use.candidates.empty()) use.depth = Depth::kDone;
  if (use.only && least_bound < RealNs::Infinite()) use.bound = std::max(use.bound, least_bound);
  return absl::OkStatus();
}

// Null: nothing fits.
absl::StatusOr<Optimiser::Found> Optimiser::Try(Use& use) {
  std::stable_sort(use.candidates.begin(), use.candidates.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  Found best;
  for (const auto& [bound, mapping] : use.candidates) {
    if (best && bound >= best->time.total) break;
    FORETRACE_RETURN_IF_ERROR(TryMapping(mapping, best));
  }
  // Shardings and partitions in turn, as long as that is faster.
  while (best && use.open && use.bound < (1 - 1e-9) * best->time.total) {
    const RealNs before = best->time.total;
    FORETRACE_RETURN_IF_ERROR(Improve(use, best));
    if (best->time.total >= before) break;
    FORETRACE_RETURN_IF_ERROR(TryMapping(Mapping(best->mapping), best));
  }
  if (use.only && !best) use.bound = RealNs::Infinite();
  const bool all = best && (best->proven() || limits_.partition_of);
  if (use.only && all) use.bound = std::max(use.bound, best->time.total);
  return best;
}

absl::Status Optimiser::TryMapping(const Mapping& mapping, Found& best) {
  auto costs = MappingCosts::Create(workload_, system_, formulas_, mapping);
  if (!costs.ok()) return costs.status();
  auto partitioning = PartitionsOf(workload_, *costs, limits_);
  if (!partitioning.ok()) return Note(partitioning.status());
  auto found = costs->Finish(*std::move(partitioning));
  if (!found.ok()) return Note(found.status());
  if (!best || found->time.total.ns() < best->time.total.ns())
    best = std::make_unique<MappedWorkload>(*std::move(found));
  return absl::OkStatus();
}

// The mapping with its partitions, where it fits and is faster; they are within `exact` of the
// fastest.
absl::Status Optimiser::Keep(Mapping mapping, double exact, Found& best) const {
  FORETRACE_ASSIGN_OR_RETURN(const MappingCosts costs,
                             MappingCosts::Create(workload_, system_, formulas_, mapping));
  if (!costs.CheckResident().ok()) return absl::OkStatus();
  auto partitioning = EvaluatePartitions(workload_, costs.partitions(), mapping.partition_of);
  if (!partitioning.ok()) return absl::OkStatus();
  partitioning->bound = exact * partitioning->time;
  auto found = costs.Finish(*std::move(partitioning));
  if (found.ok() && found->time.total.ns() < best->time.total.ns() * (1 - 1e-12))
    best = std::make_unique<MappedWorkload>(*std::move(found));
  return absl::OkStatus();
}

absl::Status Optimiser::Improve(const Use& use, Found& best) {
  if (!Alone(system_, limits_)) FORETRACE_RETURN_IF_ERROR(ImproveTogether(use, best));
  return ImproveAlone(use, best);
}

// One kernel's sharding after another, with the same partitions.
absl::Status Optimiser::ImproveAlone(const Use& use, Found& best) {
  const double exact = best->partitioning.bound / best->partitioning.time;
  const auto& choices = ProblemOf(*use.roles).choices();
  for (size_t i = 0; i < choices.size(); ++i) {
    for (const Sharding d : choices[i]) {
      Mapping mapping = best->mapping;
      if (mapping.shardings[i] == d) continue;
      mapping.shardings[i] = d;
      FORETRACE_RETURN_IF_ERROR(Keep(std::move(mapping), exact, best));
    }
  }
  return absl::OkStatus();
}

// All kernels' at once: a partition takes the longest of its terms, which is the largest mean of
// them under any weights. Weights move to what is longest (multiplicative updates), and the least
// mean for given weights is found exactly.
absl::Status Optimiser::ImproveTogether(const Use& use, Found& best) {
  constexpr int kRounds = 12;
  constexpr double kRate = 3;
  const double exact = best->partitioning.bound / best->partitioning.time;
  Mapping mapping = best->mapping;
  std::vector<Partition> terms = best->partitioning.partitions;
  std::vector<std::array<double, 3>> weights(terms.size(), {1, 1, 1});
  for (int round = 0; round < kRounds; ++round) {
    for (size_t p = 0; p < terms.size(); ++p) {
      const std::array<double, 3> ns = {terms[p].compute.ns(), terms[p].memory.ns(),
                                        terms[p].network.ns()};
      const double longest = std::max({ns[0], ns[1], ns[2], 1e-3});
      double sum = 0;
      for (size_t t = 0; t < 3; ++t)
        sum += weights[p][t] *= std::exp(kRate * (ns[t] / longest - 1));
      for (double& w : weights[p]) w /= sum;
    }
    mapping.shardings =
        SolveForPartitions(ProblemOf(*use.roles), use.roles->system, formulas_, mapping, weights);
    FORETRACE_RETURN_IF_ERROR(Keep(mapping, exact, best));
    FORETRACE_ASSIGN_OR_RETURN(const MappingCosts costs,
                               MappingCosts::Create(workload_, system_, formulas_, mapping));
    const auto now = EvaluatePartitions(workload_, costs.partitions(), mapping.partition_of);
    if (!now.ok()) break;  // too much SRAM
    terms = now->partitions;
  }
  return absl::OkStatus();
}

// What does not fit is no error as long as something else does.
absl::Status Optimiser::Note(const absl::Status& status) {
  if (status.code() != absl::StatusCode::kFailedPrecondition) return status;
  if (last_.ok()) last_ = status;
  return absl::OkStatus();
}

// Partitions of the best mapping that are not proven: by the integer program from there.
absl::Status Optimiser::ProvePartitions() {
  constexpr int kNodes = 20;
  if (limits_.partition_of || best_->proven()) return absl::OkStatus();
  FORETRACE_ASSIGN_OR_RETURN(const MappingCosts costs,
                             MappingCosts::Create(workload_, system_, formulas_, best_->mapping));
  FORETRACE_ASSIGN_OR_RETURN(Partitioning found,
                             SolvePartitionProgram(workload_, costs.partitions(), costs.limits(),
                                                   best_->partitioning, kNodes));
  FORETRACE_ASSIGN_OR_RETURN(*best_, costs.Finish(std::move(found)));
  return absl::OkStatus();
}

absl::StatusOr<MappedWorkload> Optimiser::Take() {
  if (!best_) {
    // What fits into memory as a whole and nowhere in its partitions is nearer than what does not.
    if (!last_.ok()) return last_;
    if (!nearest_.ok()) return nearest_;
    return Infeasible(
        "workload {}: no use of system {}'s {} dimensions divides its {} layers and batch of {}{}",
        workload_.name, system_.name, system_.dimensions.size(), workload_.layers, workload_.batch,
        limits_.scheme.chunks > 1 ? fmt::format(" with {} chunks a stage", limits_.scheme.chunks)
                                  : "");
  }
  FORETRACE_RETURN_IF_ERROR(ProvePartitions());
  best_->candidates = static_cast<int64_t>(uses_.size());
  best_->pruned = std::count_if(uses_.begin(), uses_.end(),
                                [](const Use& u) { return u.depth != Depth::kDone; });
  best_->shardings_given = limits_.shardings || limits_.megatron != SearchLimits::Megatron::kNo;
  best_->bound = best_->time.total;
  for (Use& u : uses_) {
    // By the best of all, which may have come later.
    if (u.depth == Depth::kDone && u.open && u.bound < best_->time.total && PassesApart())
      BoundPasses(u);
    // Nothing of it fits, or it was tried whole.
    if (u.depth == Depth::kDone && u.candidates.empty()) continue;
    best_->bound = std::min(best_->bound, u.bound);
  }
  return std::move(*best_);
}

}  // namespace foretrace::dataflow
