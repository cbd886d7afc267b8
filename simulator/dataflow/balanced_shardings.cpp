#include "simulator/dataflow/balanced_shardings.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "simulator/dataflow/quantities.h"

namespace foretrace::dataflow {
namespace {

constexpr size_t kCompute = 0, kMemory = 1, kNetwork = 2, kTerms = 3;
using Terms = std::array<double, kTerms>;
using PassesTerms = std::array<Terms, 2>;  // forward, backward

// A game of weights against shardings: weights grow where the answer of the shardings is long
// (multiplicative updates), and every answer bounds all shardings from below, since passes take no
// less than a mean of their terms and memory no more than there is (Lagrange's multiplier on it).
class Game {
 public:
  Game(const ShardingProblem& problem, const System& system, const Formulas& formulas,
       const Mapping& mapping, const ShardingProblem::Mask& mask)
      : problem_(problem),
        workload_(problem.workload()),
        mapping_(mapping),
        mask_(mask),
        terms_(workload_, system, formulas, mapping) {
    Mapping any = mapping;
    any.shardings.assign(workload_.kernels.size(), Sharding());
    const auto costs = MappingCosts::Create(workload_, system, formulas, any);
    if (costs.ok()) resident_ = costs->resident();
    room_ = CountOf(system.memory.capacity) - resident_.others;
    for (Terms& w : weights_) w.fill(1. / 3);
  }

  BalancedShardings Solve(RealNs below) {
    constexpr int kRounds = 40, kMost = 6;
    BalancedShardings out;
    for (int round = 0; round < kRounds && out.bound < below && room_ > 0; ++round) {
      const bool mean = round % 10 == 9;  // of the weights until now
      const PassesTerms use = mean ? Mean() : weights_;
      const std::vector<size_t> chosen = problem_.Solve(Objective(use), mask_);
      const double pass_ns =
          static_cast<double>(problem_.CostOf(chosen, Objective(use)).ps) * 1e-3 -
          memory_price_ * room_ - Rounding();
      out.bound =
          std::max(out.bound, RealNs(terms_.passes() * pass_ns - terms_.RepeatedLatencyNs()));
      const Answer answer = Measured(problem_.ShardingsOf(chosen));
      if (terms_.passes() * answer.ns - terms_.RepeatedLatencyNs() < below.ns()) Keep(answer);
      if (!mean) Move(answer, round, pass_ns);
    }
    std::stable_sort(kept_.begin(), kept_.end(),
                     [](const Answer& a, const Answer& b) { return a.ns < b.ns; });
    if (kept_.size() > kMost) kept_.resize(kMost);
    for (Answer& a : kept_) out.found.push_back(std::move(a.shardings));
    return out;
  }

 private:
  struct Answer {
    Shardings shardings;
    PassesTerms terms = {};
    double ns = 0;     // of passes that are one partition each
    double bytes = 0;  // in memory for good
  };

  size_t PassOf(size_t kernel) const {
    return workload_.kernels[kernel].pass == Direction::kForward ? 0 : 1;
  }
  size_t PassOf(int kernel) const { return PassOf(static_cast<size_t>(kernel)); }
  double Times(size_t pass) const {
    return pass == 0 && mapping_.recompute == Recompute::kFull ? 2 : 1;
  }
  // Each cost is rounded to a picosecond.
  double Rounding() const {
    return static_cast<double>(workload_.kernels.size() + 2 * workload_.tensors.size()) * 1e-3;
  }

  Terms TermsOf(size_t i, const ShardedKernel& k) const {
    return {terms_.SharedNs(i, k), terms_.WeightNs(k) + terms_.StoredNs(k),
            terms_.NetworkNs(k.reduce_time.ns())};
  }
  double BytesOf(size_t i, const ShardedKernel& k) const {
    return (PassOf(i) == 0 ? resident_.weights * k.weight_bytes.count() : 0) +
           resident_.stored * k.stored_bytes.count();
  }

  ShardingObjective Objective(const PassesTerms& use) const {
    ShardingObjective objective;
    objective.kernel = [this, use](size_t i, const ShardedKernel& k) {
      const Terms of = TermsOf(i, k);
      const Terms& w = use[PassOf(i)];
      double ns = 0;
      for (size_t t = 0; t < kTerms; ++t) ns += w[t] * of[t];
      return ShardingCost{Picoseconds(Times(PassOf(i)) * ns + terms_.IterationNs(i, k) +
                                      memory_price_ * BytesOf(i, k)),
                          k.weight_bytes.count() + k.output_bytes.count()};
    };
    objective.tensor = [this, use](const ShardedTensor& t) {
      const size_t from = PassOf(t.from), to = PassOf(t.to);
      double ns = Times(from) * use[from][kNetwork] * terms_.NetworkNs(t.convert_time.ns());
      if (from != to) {
        // Written by one pass and read by the other.
        ns += terms_.CrossingNs(t.bytes.count()) / 2 *
                  (Times(from) * use[from][kMemory] + Times(to) * use[to][kMemory]) +
              memory_price_ * resident_.stash * t.bytes.count();
      }
      return ShardingCost{Picoseconds(ns), t.bytes.count()};
    };
    return objective;
  }

  Answer Measured(Shardings shardings) const {
    Answer a;
    const ShardedWorkload sharded = Shard(workload_, shardings, problem_.group());
    double once_ns = 0;
    for (size_t i = 0; i < sharded.kernels.size(); ++i) {
      const ShardedKernel& k = sharded.kernels[i];
      const Terms of = TermsOf(i, k);
      for (size_t t = 0; t < kTerms; ++t) a.terms[PassOf(i)][t] += of[t];
      a.bytes += BytesOf(i, k);
      once_ns += terms_.IterationNs(i, k);
    }
    for (const auto* tensors : {&sharded.tensors, &sharded.next_layer}) {
      for (const ShardedTensor& t : *tensors) {
        a.terms[PassOf(t.from)][kNetwork] += terms_.NetworkNs(t.convert_time.ns());
        if (PassOf(t.from) == PassOf(t.to) || tensors == &sharded.next_layer) continue;
        for (Terms& of : a.terms) of[kMemory] += terms_.CrossingNs(t.bytes.count()) / 2;
        a.bytes += resident_.stash * t.bytes.count();
      }
    }
    a.ns = once_ns;
    for (size_t p = 0; p < 2; ++p)
      a.ns += Times(p) * *std::max_element(a.terms[p].begin(), a.terms[p].end());
    a.shardings = std::move(shardings);
    return a;
  }

  void Keep(const Answer& answer) {
    const auto same = [&](const Answer& a) { return a.shardings == answer.shardings; };
    if (answer.bytes > room_ || std::any_of(kept_.begin(), kept_.end(), same)) return;
    kept_.push_back(answer);
  }

  void Move(const Answer& answer, int round, double pass_ns) {
    const double rate = 3 / std::sqrt(1.0 + round);
    for (size_t p = 0; p < 2; ++p) {
      const double longest =
          std::max(1e-3, *std::max_element(answer.terms[p].begin(), answer.terms[p].end()));
      double sum = 0;
      for (size_t t = 0; t < kTerms; ++t)
        sum += weights_[p][t] *= std::exp(rate * (answer.terms[p][t] / longest - 1));
      for (size_t t = 0; t < kTerms; ++t) {
        weights_[p][t] /= sum;
        sums_[p][t] += weights_[p][t];
      }
    }
    const double full = answer.bytes / room_;
    if (memory_price_ > 0) {
      memory_price_ *= std::exp(rate * (std::min(full, 2.0) - 1));
    } else if (full > 1) {
      memory_price_ = 0.05 * std::max(0.0, pass_ns) / room_;
    }
  }

  PassesTerms Mean() const {
    PassesTerms mean = sums_;
    for (Terms& of : mean) {
      const double sum = of[kCompute] + of[kMemory] + of[kNetwork];
      for (double& w : of) w /= sum;
    }
    return mean;
  }

  const ShardingProblem& problem_;
  const Workload& workload_;
  const Mapping& mapping_;
  const ShardingProblem::Mask& mask_;
  PassTerms terms_;
  MappingCosts::ResidentShares resident_;
  double room_ = 0;          // bytes
  double memory_price_ = 0;  // ns of a pass for a byte
  PassesTerms weights_ = {}, sums_ = {};
  std::vector<Answer> kept_;
};

}  // namespace

BalancedShardings SolveBalanced(const ShardingProblem& problem, const System& system,
                                const Formulas& formulas, const Mapping& mapping,
                                const ShardingProblem::Mask& mask, RealNs below) {
  return Game(problem, system, formulas, mapping, mask).Solve(below);
}

}  // namespace foretrace::dataflow
