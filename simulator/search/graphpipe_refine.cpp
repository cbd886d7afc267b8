// Hill climbing from a plan on what the simulation says, as the searches minimise the bottleneck
// alone.

#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

#include "simulator/base/status_macros.h"
#include "simulator/optimise/local_search.h"
#include "simulator/search/graphpipe.h"
#include "simulator/search/graphpipe_plan.h"

namespace foretrace {
namespace {

using Stages = std::vector<GraphPipeStage>;

// Passes simulated in all, some 30 ns each; the same plan whatever the machine.
constexpr int64_t kPassBudget = 4'000'000;
// Rounds are bounded by the budget; below this share of the iteration a step is not worth one.
constexpr double kLeastGain = 1e-4;

class Climber {
 public:
  Climber(const GraphPipeProblem& problem, const OpGraph& graph, GraphPipePlan plan)
      : p_(problem), best_(std::move(plan)), position_(problem.ops.size()) {
    for (size_t i = 0; i < position_.size(); ++i) {
      position_[static_cast<size_t>(graph.topological_order()[i])] = static_cast<int32_t>(i);
    }
  }

  absl::StatusOr<GraphPipePlan> Run() {
    FORETRACE_RETURN_IF_ERROR(Descend([&] { return Neighbours(best_.stages); },
                                      [&](const Stages& next) { return Try(next); },
                                      [&] { return budget_ <= 0; }));
    return std::move(best_);
  }

 private:
  absl::StatusOr<bool> Try(Stages stages) {
    if (budget_ <= 0 || !Order(stages)) return false;
    GraphPipePlan plan;
    plan.linearised = best_.linearised;
    int64_t passes = 0;
    for (const GraphPipeStage& s : stages)
      passes += 2 * int64_t{p_.mini_batch / s.config.micro_batch};
    plan.stages = std::move(stages);
    internal::CompletePlan(p_, plan);
    const bool fits = std::all_of(plan.stages.begin(), plan.stages.end(),
                                  [&](const auto& s) { return s.memory <= p_.memory; });
    const RealSeconds goal = (1 - kLeastGain) * best_.iteration;
    budget_ -= static_cast<int64_t>(p_.ops.size());
    if (!fits || p_.mini_batch * plan.bottleneck >= goal) return false;
    budget_ -= passes;
    FORETRACE_RETURN_IF_ERROR(internal::SimulatePlan(p_, plan));
    if (plan.iteration >= goal) return false;
    best_ = std::move(plan);
    return true;
  }

  // Stages so that dependencies go forward; false where they would wait for each other.
  bool Order(Stages& stages) const {
    std::vector<size_t> stage_of(p_.ops.size());
    for (size_t s = 0; s < stages.size(); ++s) {
      std::sort(stages[s].ops.begin(), stages[s].ops.end());
      for (const int32_t op : stages[s].ops) stage_of[static_cast<size_t>(op)] = s;
    }
    std::vector<std::vector<size_t>> next(stages.size());
    std::vector<int32_t> waits(stages.size(), 0);
    const auto add = [&](size_t from, size_t to) {
      next[from].push_back(to);
      ++waits[to];
    };
    for (const GraphPipeEdge& e : p_.edges) {
      const size_t from = stage_of[static_cast<size_t>(e.from)];
      const size_t to = stage_of[static_cast<size_t>(e.to)];
      if (from != to) add(from, to);
    }
    if (p_.sequential) {
      for (size_t s = 0; s + 1 < stages.size(); ++s) add(s, s + 1);
    }
    Stages ordered;
    std::vector<size_t> ready;
    for (size_t s = stages.size(); s-- > 0;) {
      if (waits[s] == 0) ready.push_back(s);
    }
    while (!ready.empty()) {
      const size_t s = ready.back();
      ready.pop_back();
      for (const size_t t : next[s]) {
        if (--waits[t] == 0) ready.push_back(t);
      }
      ordered.push_back(std::move(stages[s]));
    }
    if (ordered.size() < stages.size()) return false;
    stages = std::move(ordered);
    return true;
  }

  // All plans one step away: more or fewer devices of a stage, also in exchange with another;
  // another micro-batch size; two stages joined; an operator moved across a border.
  std::vector<Stages> Neighbours(const Stages& from) const {
    std::vector<Stages> all;
    int32_t used = 0;
    for (const GraphPipeStage& s : from) used += s.devices;
    AddMicroBatches(from, all);
    for (size_t s = 0; s < from.size(); ++s) {
      for (const int32_t devices : {from[s].devices * 2, from[s].devices / 2}) {
        if (devices < 1 || devices > from[s].config.micro_batch) continue;
        Stages next = from;
        next[s].devices = devices;
        const int32_t over = used - from[s].devices + devices - p_.devices;
        if (over <= 0) {
          all.push_back(std::move(next));
          continue;
        }
        for (size_t t = 0; t < from.size(); ++t) {
          if (t == s || from[t].devices - over < 1) continue;
          Stages exchanged = next;
          exchanged[t].devices = std::min(from[t].devices / 2, from[t].devices - over);
          if (exchanged[t].devices >= 1) all.push_back(std::move(exchanged));
        }
      }
      for (const int32_t t : from[s].successors) AddBorders(from, s, static_cast<size_t>(t), all);
    }
    return all;
  }

  void AddMicroBatches(const Stages& from, std::vector<Stages>& all) const {
    for (const bool larger : {true, false}) {
      Stages next = from;
      bool valid = true;
      for (GraphPipeStage& s : next) {
        int32_t& b = s.config.micro_batch;
        b = larger ? b * 2 : b / 2;
        valid = valid && b >= s.devices && p_.mini_batch % b == 0 &&
                s.config.k <= p_.mini_batch / b &&
                (p_.micro_batches.empty() ||
                 std::count(p_.micro_batches.begin(), p_.micro_batches.end(), b) > 0);
      }
      if (valid) all.push_back(std::move(next));
    }
  }

  void AddBorders(const Stages& from, size_t s, size_t t, std::vector<Stages>& all) const {
    Stages joined = from;
    joined[s].ops.insert(joined[s].ops.end(), from[t].ops.begin(), from[t].ops.end());
    joined[s].devices = static_cast<int32_t>(
        std::bit_floor(static_cast<uint32_t>(from[s].devices + from[t].devices)));
    joined[s].devices = std::min(joined[s].devices, joined[s].config.micro_batch);
    joined.erase(joined.begin() + static_cast<std::ptrdiff_t>(t));
    all.push_back(std::move(joined));
    const auto earlier = [&](int32_t a, int32_t b) {
      return position_[static_cast<size_t>(a)] < position_[static_cast<size_t>(b)];
    };
    for (const auto& [giver, taker, last] : {std::tuple{s, t, true}, std::tuple{t, s, false}}) {
      const std::vector<int32_t>& ops = from[giver].ops;
      if (ops.size() < 2) continue;
      const int32_t op = last ? *std::max_element(ops.begin(), ops.end(), earlier)
                              : *std::min_element(ops.begin(), ops.end(), earlier);
      Stages next = from;
      std::erase(next[giver].ops, op);
      next[taker].ops.push_back(op);
      all.push_back(std::move(next));
    }
  }

  const GraphPipeProblem& p_;
  GraphPipePlan best_;
  std::vector<int32_t> position_;
  int64_t budget_ = kPassBudget;
};

}  // namespace

absl::StatusOr<GraphPipePlan> RefinePlan(const GraphPipeProblem& problem, GraphPipePlan plan) {
  FORETRACE_RETURN_IF_ERROR(internal::CheckProblem(problem));
  FORETRACE_ASSIGN_OR_RETURN(const OpGraph graph, internal::GraphOf(problem));
  return Climber(problem, graph, std::move(plan)).Run();
}

}  // namespace foretrace
