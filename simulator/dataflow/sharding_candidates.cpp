#include "simulator/dataflow/sharding_candidates.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "simulator/base/status_macros.h"
#include "simulator/dataflow/limited_shardings.h"
#include "simulator/dataflow/mapping_costs.h"
#include "simulator/dataflow/pass_terms.h"
#include "simulator/dataflow/quantities.h"

namespace foretrace::dataflow {
namespace {

ShardingObjective SumOfKernels(const PassTerms& terms) {
  ShardingObjective objective;
  // A tensor is written in its producer's pass and read in its consumer's, which may be repeated
  // by recomputation.
  objective.kernel = [&terms](size_t i, const ShardedKernel& k) {
    const double pass = terms.ComputeNs(i, k) + terms.WeightNs(k) + terms.StoredNs(k) +
                        terms.NetworkNs(k.reduce_time.ns());
    return ShardingCost{Picoseconds(terms.Times(i) * pass + terms.IterationNs(i, k)),
                        k.weight_bytes.count() + k.output_bytes.count()};
  };
  objective.tensor = [&terms](const ShardedTensor& t) {
    const double from = terms.Times(static_cast<size_t>(t.from)),
                 to = terms.Times(static_cast<size_t>(t.to));
    const double ns = (from + to) / 2 * terms.CrossingNs(t.bytes.count()) +
                      from * terms.NetworkNs(t.convert_time.ns());
    return ShardingCost{Picoseconds(ns), t.bytes.count()};
  };
  return objective;
}

// Shares of computation and weights, and of network.
ShardingObjective Weighted(const PassTerms& terms, double work, double weights, double network) {
  ShardingObjective objective;
  objective.kernel = [=, &terms](size_t i, const ShardedKernel& k) {
    const double ns = work * terms.SharedNs(i, k) +
                      weights * (terms.WeightNs(k) + terms.StoredNs(k)) +
                      network * terms.NetworkNs(k.reduce_time.ns());
    return ShardingCost{Picoseconds(ns), k.weight_bytes.count() + k.output_bytes.count()};
  };
  objective.tensor = [=, &terms](const ShardedTensor& t) {
    return ShardingCost{Picoseconds(network * terms.NetworkNs(t.convert_time.ns())),
                        t.bytes.count()};
  };
  return objective;
}

void Add(ShardingCandidates& out, Shardings shardings) {
  const auto& all = out.shardings;
  if (std::find(all.begin(), all.end(), shardings) == all.end())
    out.shardings.push_back(std::move(shardings));
}

// All that there are; empty: more than `most`.
std::vector<Shardings> EverySharding(const Workload& workload, const TensorGroup& group,
                                     size_t most) {
  std::vector<Shardings> all = {{}};
  for (const Kernel& k : workload.kernels) {
    const std::vector<Sharding> choices = AllowedShardings(k, group, false);
    if (all.size() * choices.size() > most) return {};
    std::vector<Shardings> longer;
    for (const Shardings& before : all) {
      for (const Sharding s : choices) {
        longer.push_back(before);
        longer.back().push_back(s);
      }
    }
    all = std::move(longer);
  }
  return all;
}

void AddMegatron(const Workload& workload, const TensorGroup& group, ShardingCandidates& out) {
  Add(out, MegatronShardings(workload));
  if (!group.published) Add(out, SequenceParallelShardings(workload, group.size()));
}

}  // namespace

Shardings MegatronShardings(const Workload& workload) {
  constexpr std::array<std::string_view, 3> kLabels = {"heads", "ffn", "vocabulary"};
  return ShardAlong(workload, kLabels);
}

Shardings SequenceParallelShardings(const Workload& workload, int64_t chips) {
  Shardings out = MegatronShardings(workload);
  for (size_t i = 0; i < out.size(); ++i) {
    const Kernel& k = workload.kernels[i];
    const bool elementwise = k.kind == NestKind::kElementwise;
    Loop sequence = Loop::kCount;
    for (const Loop d : {Loop::kOuter, Loop::kM, Loop::kN}) {
      if (k.label_of(d) == "seq" && k.of(d) >= chips) sequence = d;
    }
    if (elementwise && out[i].axis == Loop::kCount) out[i] = sequence;
    const bool partial = !elementwise && out[i].axis == Loop::kK;
    if (partial && !k.reduced_elsewhere && !k.weight_gradient) out[i].scatter = sequence;
  }
  return out;
}

bool SameForEveryMicroBatch(const System& system, const Formulas& formulas) {
  // Weights are read once for all samples; measured kernels are not linear in them.
  return Overlaps(system, formulas) && formulas.kernel_times == nullptr &&
         GroupOf(system, formulas, Role::kTensor).linear();
}

KernelShares SharesOf(const Workload& workload, const TensorGroup& group) {
  KernelShares shares(workload.kernels.size());
  const std::array<Shardings, 2> others = {MegatronShardings(workload),
                                           SequenceParallelShardings(workload, group.size())};
  for (size_t i = 0; i < shares.size(); ++i) {
    const Kernel& kernel = workload.kernels[i];
    const auto add = [&](Sharding s) {
      shares[i].push_back(ShardKernel(kernel, s, group, workload.word_bytes));
    };
    for (const Sharding s : AllowedShardings(kernel, group, false)) add(s);
    for (const Shardings& s : others) add(s[i]);
  }
  return shares;
}

namespace {

ShardingObjective ResidentBytes(const Workload& workload, const MappingCosts& costs) {
  const MappingCosts::ResidentShares shares = costs.resident();
  ShardingObjective objective;
  objective.kernel = [shares, &workload](size_t i, const ShardedKernel& k) {
    const double weights = workload.kernels[i].pass == Direction::kForward
                               ? shares.weights * k.weight_bytes.count()
                               : 0;
    return ShardingCost{std::llround(weights + shares.stored * k.stored_bytes.count()), 0};
  };
  objective.tensor = [shares, &workload](const ShardedTensor& t) {
    const auto pass = [&](int kernel) {
      return workload.kernels[static_cast<size_t>(kernel)].pass;
    };
    const bool kept = pass(t.from) == Direction::kForward && pass(t.to) == Direction::kBackward;
    return ShardingCost{kept ? std::llround(shares.stash * t.bytes.count()) : 0, 0};
  };
  return objective;
}

// Weights and tensors, each once: what is in memory while kernels run alone is a part of it.
ShardingObjective BytesOfTensors() {
  return {[](size_t, const ShardedKernel& k) {
            return ShardingCost{std::llround(k.weight_bytes.count() + k.stored_bytes.count()), 0};
          },
          [](const ShardedTensor& t) {
            return ShardingCost{std::llround(t.bytes.count()), 0};
          }};
}

// What the least that fits into memory is, where the least of all does not.
absl::Status AddFitting(const ShardingProblem& problem, const System& system,
                        const Formulas& formulas, const Mapping& mapping,
                        const CandidateSearch& search, const ShardingObjective& time, double passes,
                        ShardingCandidates& out) {
  const Workload& workload = problem.workload();
  Mapping first = mapping;
  first.shardings = out.shardings.front();
  FORETRACE_ASSIGN_OR_RETURN(const MappingCosts costs,
                             MappingCosts::Create(workload, system, formulas, first));
  if (costs.CheckResident().ok()) return absl::OkStatus();
  const double most = CountOf(system.memory.capacity) - costs.resident().others;
  const ShardingObjective bytes = ResidentBytes(workload, costs);
  const int64_t least = CostOf(workload, out.shardings.front(), problem.group(), time).ps;
  const double above = (search.below - costs.LowerBound(true).total).ns() / passes * 1000;
  const int64_t cutoff = above < 1e15 ? least + std::llround(std::max(0.0, above))
                                      : std::numeric_limits<int64_t>::max();
  const LimitedShardings limited = SolveWithin(
      problem, time, bytes, static_cast<int64_t>(std::max(0.0, most)), cutoff, search.nodes);
  out.excess =
      RealNs(passes * (static_cast<double>(limited.bound_ps) - static_cast<double>(least)) * 1e-3);
  if (limited.found.empty()) return absl::OkStatus();
  if (limited.exact) out.fitting = out.shardings.size();
  for (const Shardings& s : limited.found) Add(out, s);
  return absl::OkStatus();
}

}  // namespace

ShardingCandidates SolveCandidates(const ShardingProblem& problem, const System& system,
                                   const Formulas& formulas, const Mapping& mapping,
                                   const CandidateSearch& search) {
  const Workload& workload = problem.workload();
  const TensorGroup& group = problem.group();
  ShardingCandidates out;
  if (group.size() == 1) {
    out.shardings = {Shardings(workload.kernels.size(), Loop::kCount)};
    return out;
  }
  const PassTerms terms(workload, system, formulas, mapping);
  const ShardingProblem::Mask divided = problem.DividedWeights();
  if (search.alone && !Overlaps(system, formulas)) {
    const ShardingObjective sum = SumOfKernels(terms);
    const std::vector<size_t> first = problem.Solve(sum);
    Add(out, problem.ShardingsOf(first));
    // What reductions leave exposed is no sum over kernels.
    out.least = !mapping.scheme.overlap_gradients;
    out.sample_bound =
        RealNs(std::max(0.0, static_cast<double>(problem.CostOf(first, sum).ps) * 1e-3 - 1) *
               (1 - 1e-9) / mapping.micro_batch);
    if (!AddFitting(problem, system, formulas, mapping, search, sum, terms.passes(), out).ok())
      return out;
    Add(out, problem.ShardingsOf(problem.Solve(sum, divided)));
    Add(out, problem.ShardingsOf(problem.Solve(BytesOfTensors())));
    AddMegatron(workload, group, out);
    return out;
  }
  out.shardings = EverySharding(workload, group, search.every);
  if (!out.shardings.empty()) return out;
  Add(out, problem.ShardingsOf(problem.Solve(Communication(), divided)));
  // Where terms overlap a pass takes no less than any share of them; else their sum.
  const std::vector<std::array<double, 3>> shares =
      Overlaps(system, formulas)
          ? std::vector<std::array<double, 3>>{{0, 0, 1}, {1, 0, 0}, {0.5, 0, 0.5}}
          : std::vector<std::array<double, 3>>{{1, 1, 1}, {0, 0, 1}};
  double bound = 0;
  for (const auto& [work, weights, network] : shares) {
    const ShardingObjective objective = Weighted(terms, work, weights, network);
    Shardings least = problem.ShardingsOf(problem.Solve(objective));
    const ShardingCost cost = CostOf(workload, least, group, objective);
    bound = std::max(bound, static_cast<double>(cost.ps) * 1e-3);
    Add(out, std::move(least));
  }
  AddMegatron(workload, group, out);
  // Each term is rounded to a picosecond.
  const auto terms_count = static_cast<double>(workload.kernels.size() + workload.tensors.size());
  out.sample_bound = RealNs(std::max(0.0, bound - terms_count * 1e-3) / mapping.micro_batch);
  return out;
}

Shardings SolveForPartitions(const ShardingProblem& problem, const System& system,
                             const Formulas& formulas, const Mapping& mapping,
                             const std::vector<std::array<double, 3>>& weights) {
  const PassTerms terms(problem.workload(), system, formulas, mapping);
  const auto weights_of = [&](size_t kernel) -> const std::array<double, 3>& {
    return weights[static_cast<size_t>(mapping.partition_of[kernel])];
  };
  ShardingObjective objective;
  objective.kernel = [&](size_t i, const ShardedKernel& k) {
    const auto& [compute, memory, network] = weights_of(i);
    const double pass = compute * terms.ComputeNs(i, k) +
                        memory * (terms.WeightNs(k) + terms.StoredNs(k)) +
                        network * terms.NetworkNs(k.reduce_time.ns());
    return ShardingCost{Picoseconds(terms.Times(i) * pass + terms.IterationNs(i, k)),
                        k.weight_bytes.count() + k.output_bytes.count()};
  };
  objective.tensor = [&](const ShardedTensor& t) {
    const auto from = static_cast<size_t>(t.from), to = static_cast<size_t>(t.to);
    double ns = terms.Times(from) * weights_of(from)[2] * terms.NetworkNs(t.convert_time.ns());
    if (mapping.partition_of[from] != mapping.partition_of[to]) {
      const double both = terms.CrossingNs(t.bytes.count()) / 2;
      ns += both * (terms.Times(from) * weights_of(from)[1] + terms.Times(to) * weights_of(to)[1]);
    }
    return ShardingCost{Picoseconds(ns), t.bytes.count()};
  };
  return problem.ShardingsOf(problem.Solve(objective));
}

}  // namespace foretrace::dataflow
