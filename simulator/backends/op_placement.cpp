#include "simulator/backends/op_placement.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"

namespace foretrace {
namespace {

// Places in the order, ascending.
using Places = absl::InlinedVector<int32_t, 8>;

// How a state is reached.
struct Arrival {
  SimTime cost;
  int32_t choice = -1;    // the last
  int32_t previous = -1;  // state,
  int32_t rank = 0;       // by which of its arrivals
};

struct State {
  Places covered;                 // beyond its prefix
  std::vector<Arrival> arrivals;  // cheapest first
  double placements = 0;

  SimTime cost() const { return arrivals.front().cost; }
};

// Depth first from the inputs of every result: kernels then cover neighbours in the order. -1: not
// among the operators chosen.
std::vector<int32_t> DepthFirstOrder(const OperatorView& dag, const std::vector<bool>& chosen) {
  std::vector<int32_t> place(static_cast<size_t>(dag.size()), -1);
  std::vector<bool> seen(static_cast<size_t>(dag.size()));
  const auto is_chosen = [&](int32_t op) { return chosen[static_cast<size_t>(op)]; };
  int32_t placed = 0;
  std::vector<std::pair<int32_t, size_t>> open;
  for (int32_t result = 0; result < dag.size(); ++result) {
    if (!is_chosen(result) || std::ranges::any_of(dag.consumers(result), is_chosen)) continue;
    open.emplace_back(result, 0);
    seen[static_cast<size_t>(result)] = true;
    while (!open.empty()) {
      auto& [op, next] = open.back();
      const std::vector<int32_t>& inputs = dag.op(op).inputs;
      if (next == inputs.size()) {
        place[static_cast<size_t>(op)] = placed++;
        open.pop_back();
        continue;
      }
      const int32_t input = inputs[next++];
      if (input == kNoProducer || !is_chosen(input) || seen[static_cast<size_t>(input)]) continue;
      seen[static_cast<size_t>(input)] = true;
      open.emplace_back(input, 0);
    }
  }
  return place;
}

// What a choice costs in a sum; Max: it is not to be had.
using Costs = std::vector<SimTime>;

class Solver {
 public:
  // `place`: of each operator in a topological order of those that are to be covered; -1: of
  // others.
  Solver(const std::vector<int32_t>& place, std::span<const KernelChoice> choices, Costs costs,
         size_t keep = 1)
      : choices_(choices),
        costs_(std::move(costs)),
        keep_(keep),
        size_(place.size() - static_cast<size_t>(std::ranges::count(place, -1))),
        by_first_(size_),
        layers_(size_ + 1),
        known_(size_ + 1) {
    places_.resize(choices.size());
    for (size_t i = 0; i < choices.size(); ++i) {
      if (costs_[i] == SimTime::Max()) continue;
      Places& places = places_[i];
      for (const int32_t op : choices[i].ops) places.push_back(place[static_cast<size_t>(op)]);
      std::ranges::sort(places);
      if (places.front() < 0) continue;
      by_first_[static_cast<size_t>(places.front())].push_back(static_cast<int32_t>(i));
    }
  }

  absl::StatusOr<OpPlacement> Run(size_t max_states = kMaxPlacementStates) {
    FORETRACE_ASSIGN_OR_RETURN(const std::vector<OpPlacement> placements, RunAll(max_states));
    return placements.front();
  }

  // As many as are kept.
  absl::StatusOr<std::vector<OpPlacement>> RunAll(size_t max_states = kMaxPlacementStates) {
    states_.push_back({{}, {Arrival{}}, 1});
    layers_[0].push_back(0);
    for (size_t first = 0; first < size_; ++first) {
      // States that are added meanwhile have longer prefixes.
      for (const int32_t state : layers_[first]) {
        for (const int32_t choice : by_first_[first]) Extend(state, choice);
      }
      known_[first].clear();
      if (states_.size() > max_states) {
        return Infeasible(
            "more than {} partial placements: the kernels overlap too widely for the exact search; "
            "place with fewer backends, or patterns of fewer operators",
            max_states);
      }
    }
    if (layers_.back().empty()) {
      return Infeasible("no set of kernels covers every operator exactly once");
    }
    const int32_t last = *std::ranges::min_element(layers_.back(), {},
                                                   [&](int32_t state) { return At(state).cost(); });
    std::vector<OpPlacement> placements;
    for (size_t rank = 0; rank < At(last).arrivals.size(); ++rank) {
      placements.push_back(Result(last, rank));
    }
    return placements;
  }

 private:
  const State& At(int32_t state) const { return states_[static_cast<size_t>(state)]; }

  void Extend(int32_t from, int32_t choice) {
    const Places& covered = At(from).covered;
    const Places& added = places_[static_cast<size_t>(choice)];
    Places both;
    std::ranges::set_union(covered, added, std::back_inserter(both));
    if (both.size() != covered.size() + added.size()) return;  // they overlap
    // The prefix grows over what is covered without a gap.
    int32_t first = both.front();
    size_t gone = 0;
    while (gone < both.size() && both[gone] == first) ++gone, ++first;
    both.erase(both.begin(), both.begin() + static_cast<std::ptrdiff_t>(gone));
    const double placements = At(from).placements;
    const auto layer = static_cast<size_t>(first);
    const auto [entry, is_new] =
        known_[layer].try_emplace(both, static_cast<int32_t>(states_.size()));
    if (is_new) {
      layers_[layer].push_back(entry->second);
      states_.push_back({std::move(both), {}, 0});
    }
    State& state = states_[static_cast<size_t>(entry->second)];
    state.placements += placements;
    const SimTime added_cost = costs_[static_cast<size_t>(choice)];
    for (size_t rank = 0; rank < At(from).arrivals.size(); ++rank) {
      Keep(state,
           {At(from).arrivals[rank].cost + added_cost, choice, from, static_cast<int32_t>(rank)});
    }
  }

  // Of equal costs those that came first.
  void Keep(State& state, const Arrival& arrival) const {
    if (state.arrivals.size() == keep_ && arrival.cost >= state.arrivals.back().cost) return;
    const auto place = std::ranges::upper_bound(state.arrivals, arrival.cost, {}, &Arrival::cost);
    state.arrivals.insert(place, arrival);
    if (state.arrivals.size() > keep_) state.arrivals.pop_back();
  }

  OpPlacement Result(int32_t last, size_t rank) const {
    OpPlacement placement{{}, {}, At(last).arrivals[rank].cost, At(last).placements};
    for (int32_t at = last; At(at).arrivals[rank].choice >= 0;) {
      const Arrival& arrival = At(at).arrivals[rank];
      placement.choices.push_back(arrival.choice);
      at = arrival.previous;
      rank = static_cast<size_t>(arrival.rank);
    }
    // A kernel can run when its inputs are made, which the last operators' order says: only they
    // are read from outside.
    std::ranges::sort(placement.choices, {}, [&](int32_t choice) {
      return choices_[static_cast<size_t>(choice)].ops.back();
    });
    placement.calls.assign(placement.choices.size(), -1);
    return placement;
  }

  std::span<const KernelChoice> choices_;
  Costs costs_;
  size_t keep_;
  size_t size_;
  std::vector<Places> places_;                  // by choice
  std::vector<std::vector<int32_t>> by_first_;  // choices by their first place
  std::vector<State> states_;
  std::vector<std::vector<int32_t>> layers_;  // states by their prefix
  std::vector<absl::flat_hash_map<Places, int32_t>> known_;
};

Costs CostsAlone(std::span<const KernelChoice> choices, SimTime launch) {
  Costs costs;
  for (const KernelChoice& choice : choices) costs.push_back(choice.Alone(launch));
  return costs;
}

std::vector<int32_t> DepthFirstOrder(const OperatorView& dag) {
  return DepthFirstOrder(dag, std::vector<bool>(static_cast<size_t>(dag.size()), true));
}

}  // namespace

std::vector<int32_t> Uncovered(const OperatorView& dag, std::span<const KernelChoice> choices) {
  std::vector<bool> covered(static_cast<size_t>(dag.size()));
  for (const KernelChoice& choice : choices) {
    for (const int32_t op : choice.ops) covered[static_cast<size_t>(op)] = true;
  }
  std::vector<int32_t> without;
  for (int32_t op = 0; op < dag.size(); ++op) {
    if (!covered[static_cast<size_t>(op)]) without.push_back(op);
  }
  return without;
}

absl::Status CheckCovered(const OperatorView& dag, std::span<const KernelChoice> choices) {
  const std::vector<int32_t> without = Uncovered(dag, choices);
  if (without.empty()) return absl::OkStatus();
  std::string names;
  for (size_t i = 0; i < std::min<size_t>(without.size(), 5); ++i) {
    names += (i > 0 ? ", " : "") + dag.op(without[i]).name + " (" + dag.op(without[i]).type + ")";
  }
  if (without.size() > 5) names += ", ...";
  return Infeasible(
      "{}: {} of {} operators ({:.1f} %) have no kernel of the backends with a known time: {}; add "
      "a backend that runs them, or their measured times; of backends without any --device models "
      "the kernels that they have",
      dag.name(), without.size(), dag.size(),
      100.0 * static_cast<double>(without.size()) / dag.size(), names);
}

SimTime KernelChoice::Alone(SimTime others_launch) const {
  return time + SimTime::FromPs(launch.value_or(others_launch).ps() * launches);
}

SimTime EngineCall::Within(const KernelChoice& kernel) const {
  if (kernel.source != EstimateSource::kRecorded) return kernel.time;
  return std::max(kernel.time - fixed, SimTime());
}

absl::StatusOr<OpPlacement> PlaceOps(const OperatorView& dag, std::span<const KernelChoice> choices,
                                     SimTime launch) {
  FORETRACE_RETURN_IF_ERROR(CheckCovered(dag, choices));
  return Solver(DepthFirstOrder(dag), choices, CostsAlone(choices, launch)).Run();
}

absl::StatusOr<std::vector<OpPlacement>> RankPlacements(const OperatorView& dag,
                                                        std::span<const KernelChoice> choices,
                                                        SimTime launch, size_t count) {
  FORETRACE_RETURN_IF_ERROR(CheckCovered(dag, choices));
  return Solver(DepthFirstOrder(dag), choices, CostsAlone(choices, launch),
                std::max<size_t>(count, 1))
      .RunAll();
}

absl::StatusOr<OpPlacement> PlaceCall(const OperatorView& dag,
                                      std::span<const KernelChoice> choices, SimTime launch,
                                      const EngineCall& engine, const std::vector<int32_t>& ops) {
  std::vector<bool> chosen(static_cast<size_t>(dag.size()));
  for (const int32_t op : ops) chosen[static_cast<size_t>(op)] = true;
  Costs costs;
  for (const KernelChoice& choice : choices) {
    costs.push_back(choice.backend == engine.backend ? engine.Within(choice) : SimTime::Max());
  }
  FORETRACE_ASSIGN_OR_RETURN(OpPlacement call,
                             Solver(DepthFirstOrder(dag, chosen), choices, std::move(costs)).Run());
  call.cost += engine.Opening(launch);
  call.calls.assign(call.choices.size(), 0);
  return call;
}

}  // namespace foretrace
