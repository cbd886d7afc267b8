#include "simulator/backends/op_placement.h"

#include <algorithm>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "simulator/base/error.h"

namespace foretrace {
namespace {

// Places in the order, ascending.
using Places = absl::InlinedVector<int32_t, 8>;

struct State {
  Places covered;  // beyond its prefix
  SimTime cost;
  double placements = 0;
  int32_t choice = -1;    // the last
  int32_t previous = -1;  // state
};

// Depth first from the inputs of every result: kernels then cover neighbours in the order.
std::vector<int32_t> DepthFirstOrder(const OperatorDag& dag) {
  std::vector<int32_t> place(static_cast<size_t>(dag.size()), -1);
  std::vector<bool> seen(static_cast<size_t>(dag.size()));
  int32_t placed = 0;
  std::vector<std::pair<int32_t, size_t>> open;
  for (int32_t result = 0; result < dag.size(); ++result) {
    if (!dag.consumers(result).empty()) continue;
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
      if (input == kNoProducer || seen[static_cast<size_t>(input)]) continue;
      seen[static_cast<size_t>(input)] = true;
      open.emplace_back(input, 0);
    }
  }
  return place;
}

class Solver {
 public:
  Solver(const OperatorDag& dag, std::span<const KernelChoice> choices, SimTime launch)
      : choices_(choices),
        launch_(launch),
        size_(dag.size()),
        by_first_(Size()),
        layers_(Size() + 1),
        known_(Size() + 1) {
    const std::vector<int32_t> place = DepthFirstOrder(dag);
    for (size_t i = 0; i < choices.size(); ++i) {
      Places places;
      for (const int32_t op : choices[i].ops) places.push_back(place[static_cast<size_t>(op)]);
      std::ranges::sort(places);
      by_first_[static_cast<size_t>(places.front())].push_back(static_cast<int32_t>(i));
      places_.push_back(std::move(places));
    }
  }

  absl::StatusOr<OpPlacement> Run() {
    states_.push_back({{}, SimTime(), 1, -1, -1});
    layers_[0].push_back(0);
    for (size_t first = 0; first < Size(); ++first) {
      for (const int32_t state : layers_[first]) {
        for (const int32_t choice : by_first_[first]) Extend(state, choice);
      }
      known_[first].clear();
      if (states_.size() > kMaxPlacementStates) {
        return Infeasible(
            "more than {} partial placements: the kernels overlap too widely for the exact search; "
            "place with fewer backends, or patterns of fewer operators",
            kMaxPlacementStates);
      }
    }
    if (layers_.back().empty()) {
      return Infeasible("no set of kernels covers every operator exactly once");
    }
    return Result(layers_.back().front());
  }

 private:
  size_t Size() const { return static_cast<size_t>(size_); }

  void Extend(int32_t from, int32_t choice) {
    const Places& covered = states_[static_cast<size_t>(from)].covered;
    const Places& added = places_[static_cast<size_t>(choice)];
    Places both;
    std::ranges::set_union(covered, added, std::back_inserter(both));
    if (both.size() != covered.size() + added.size()) return;  // they overlap
    // The prefix grows over what is covered without a gap.
    int32_t first = both.front();
    size_t gone = 0;
    while (gone < both.size() && both[gone] == first) ++gone, ++first;
    both.erase(both.begin(), both.begin() + static_cast<std::ptrdiff_t>(gone));
    const SimTime cost = states_[static_cast<size_t>(from)].cost +
                         choices_[static_cast<size_t>(choice)].time + launch_;
    const double placements = states_[static_cast<size_t>(from)].placements;
    const auto layer = static_cast<size_t>(first);
    const auto [entry, is_new] =
        known_[layer].try_emplace(both, static_cast<int32_t>(states_.size()));
    if (is_new) {
      layers_[layer].push_back(entry->second);
      states_.push_back({std::move(both), cost, placements, choice, from});
      return;
    }
    State& state = states_[static_cast<size_t>(entry->second)];
    state.placements += placements;
    if (cost >= state.cost) return;
    state.cost = cost;
    state.choice = choice;
    state.previous = from;
  }

  OpPlacement Result(int32_t last) const {
    const State& end = states_[static_cast<size_t>(last)];
    OpPlacement placement{{}, end.cost, end.placements};
    for (int32_t at = last; states_[static_cast<size_t>(at)].choice >= 0;
         at = states_[static_cast<size_t>(at)].previous) {
      placement.choices.push_back(states_[static_cast<size_t>(at)].choice);
    }
    // A kernel can run when its inputs are made, which the last operators' order says: only they
    // are read from outside.
    std::ranges::sort(placement.choices, {}, [&](int32_t choice) {
      return choices_[static_cast<size_t>(choice)].ops.back();
    });
    return placement;
  }

  std::span<const KernelChoice> choices_;
  SimTime launch_;
  int32_t size_;
  std::vector<Places> places_;                  // by choice
  std::vector<std::vector<int32_t>> by_first_;  // choices by their first place
  std::vector<State> states_;
  std::vector<std::vector<int32_t>> layers_;  // states by their prefix
  std::vector<absl::flat_hash_map<Places, int32_t>> known_;
};

}  // namespace

std::vector<int32_t> Uncovered(const OperatorDag& dag, std::span<const KernelChoice> choices) {
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

absl::StatusOr<OpPlacement> PlaceOps(const OperatorDag& dag, std::span<const KernelChoice> choices,
                                     SimTime launch) {
  const std::vector<int32_t> without = Uncovered(dag, choices);
  if (!without.empty()) {
    std::string names;
    for (size_t i = 0; i < std::min<size_t>(without.size(), 5); ++i) {
      names += (i > 0 ? ", " : "") + dag.op(without[i]).name + " (" + dag.op(without[i]).type + ")";
    }
    if (without.size() > 5) names += ", ...";
    return Infeasible(
        "{}: {} of {} operators ({:.1f} %) have no kernel of the backends with a known time: {}; "
        "add "
        "a backend that runs them, or their measured times",
        dag.name(), without.size(), dag.size(),
        100.0 * static_cast<double>(without.size()) / dag.size(), names);
  }
  return Solver(dag, choices, launch).Run();
}

}  // namespace foretrace
