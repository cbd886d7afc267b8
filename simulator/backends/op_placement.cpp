#include "simulator/backends/op_placement.h"

#include <algorithm>
#include <array>
#include <string>

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
  bool opens = false;     // the last kernel is the first of an engine call
};

struct State {
  Places covered;                 // beyond its prefix
  std::vector<Arrival> arrivals;  // cheapest first
  double placements = 0;
  bool in_call = false;  // the last kernel is within an engine call

  SimTime cost() const { return arrivals.front().cost; }
};

// Depth first from the inputs of every result: kernels then cover neighbours in the order. -1: not
// among the operators chosen.
std::vector<int32_t> DepthFirstOrder(const OperatorDag& dag, const std::vector<bool>& chosen) {
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

// How kernels may run: each by itself, or also in calls of the engine, or in one call alone.
enum class Calls : uint8_t { kNone, kSome, kOne };

class Solver {
 public:
  // `engine` is null where there are no calls.
  Solver(const OperatorDag& dag, const std::vector<bool>& chosen,
         std::span<const KernelChoice> choices, SimTime launch, Calls calls,
         const EngineCall* engine, size_t keep = 1)
      : choices_(choices),
        keep_(keep),
        launch_(launch),
        calls_(calls),
        engine_(engine),
        size_(static_cast<size_t>(std::ranges::count(chosen, true))),
        by_first_(size_),
        layers_(size_ + 1),
        known_(size_ + 1) {
    const std::vector<int32_t> place = DepthFirstOrder(dag, chosen);
    places_.resize(choices.size());
    for (size_t i = 0; i < choices.size(); ++i) {
      Places& places = places_[i];
      for (const int32_t op : choices[i].ops) places.push_back(place[static_cast<size_t>(op)]);
      std::ranges::sort(places);
      if (places.front() < 0 || (calls == Calls::kOne && !IsEngine(i))) continue;
      by_first_[static_cast<size_t>(places.front())].push_back(static_cast<int32_t>(i));
    }
  }

  absl::StatusOr<OpPlacement> Run() {
    FORETRACE_ASSIGN_OR_RETURN(const std::vector<OpPlacement> placements, RunAll());
    return placements.front();
  }

  // As many as are kept.
  absl::StatusOr<std::vector<OpPlacement>> RunAll() {
    states_.push_back({{}, {Arrival{}}, 1, false});
    layers_[0].push_back(0);
    for (size_t first = 0; first < size_; ++first) {
      // States that are added meanwhile have longer prefixes.
      for (const int32_t state : layers_[first]) {
        for (const int32_t choice : by_first_[first]) ExtendBy(state, choice);
      }
      known_[first][0].clear();
      known_[first][1].clear();
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
  bool IsEngine(size_t choice) const {
    return engine_ != nullptr && choices_[choice].backend == engine_->backend;
  }

  void ExtendBy(int32_t from, int32_t choice) {
    const KernelChoice& kernel = choices_[static_cast<size_t>(choice)];
    const bool whole = At(from).covered.empty();  // a call may end here, and another begin
    const bool in_call = At(from).in_call;
    if (calls_ != Calls::kOne && (whole || !in_call)) {
      const int64_t launches = kernel.launches;
      Extend(from, choice, kernel.time + SimTime::FromPs(launch_.ps() * launches), false, false);
    }
    if (calls_ == Calls::kNone || !IsEngine(static_cast<size_t>(choice))) return;
    const SimTime within = engine_->Within(kernel);
    if (in_call) {
      Extend(from, choice, within, true, false);
    } else if (whole && (calls_ == Calls::kSome || from == 0)) {
      Extend(from, choice, within + engine_->fixed + launch_, true, true);
    }
  }

  void Extend(int32_t from, int32_t choice, SimTime added_cost, bool in_call, bool opens) {
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
        known_[layer][in_call ? 1 : 0].try_emplace(both, static_cast<int32_t>(states_.size()));
    if (is_new) {
      layers_[layer].push_back(entry->second);
      states_.push_back({std::move(both), {}, 0, in_call});
    }
    State& state = states_[static_cast<size_t>(entry->second)];
    state.placements += placements;
    for (size_t rank = 0; rank < At(from).arrivals.size(); ++rank) {
      Keep(state, {At(from).arrivals[rank].cost + added_cost, choice, from,
                   static_cast<int32_t>(rank), opens});
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
    std::vector<std::pair<int32_t, int32_t>> found;  // choice, call counted from the end
    int32_t calls = 0;
    for (int32_t at = last; At(at).arrivals[rank].choice >= 0;) {
      const Arrival& arrival = At(at).arrivals[rank];
      found.emplace_back(arrival.choice, At(at).in_call ? calls : -1);
      calls += arrival.opens;
      at = arrival.previous;
      rank = static_cast<size_t>(arrival.rank);
    }
    // A kernel can run when its inputs are made, which the last operators' order says: only they
    // are read from outside.
    std::ranges::sort(found, {}, [&](const auto& pair) {
      return choices_[static_cast<size_t>(pair.first)].ops.back();
    });
    for (const auto& [choice, call] : found) {
      placement.choices.push_back(choice);
      placement.calls.push_back(call < 0 ? -1 : calls - 1 - call);
    }
    return placement;
  }

  std::span<const KernelChoice> choices_;
  size_t keep_;
  SimTime launch_;
  Calls calls_;
  const EngineCall* engine_;
  size_t size_;
  std::vector<Places> places_;                  // by choice
  std::vector<std::vector<int32_t>> by_first_;  // choices by their first place
  std::vector<State> states_;
  std::vector<std::vector<int32_t>> layers_;  // states by their prefix
  // Without and within a call.
  std::vector<std::array<absl::flat_hash_map<Places, int32_t>, 2>> known_;
};

std::vector<bool> Everything(const OperatorDag& dag) {
  return std::vector<bool>(static_cast<size_t>(dag.size()), true);
}

absl::Status CheckCovered(const OperatorDag& dag, std::span<const KernelChoice> choices) {
  const std::vector<int32_t> without = Uncovered(dag, choices);
  if (without.empty()) return absl::OkStatus();
  std::string names;
  for (size_t i = 0; i < std::min<size_t>(without.size(), 5); ++i) {
    names += (i > 0 ? ", " : "") + dag.op(without[i]).name + " (" + dag.op(without[i]).type + ")";
  }
  if (without.size() > 5) names += ", ...";
  return Infeasible(
      "{}: {} of {} operators ({:.1f} %) have no kernel of the backends with a known time: {}; add "
      "a backend that runs them, their measured times, or --device, whose kernels are modelled",
      dag.name(), without.size(), dag.size(),
      100.0 * static_cast<double>(without.size()) / dag.size(), names);
}

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

SimTime EngineCall::Within(const KernelChoice& kernel) const {
  if (kernel.source != EstimateSource::kRecorded) return kernel.time;
  return std::max(kernel.time - fixed, SimTime());
}

absl::StatusOr<OpPlacement> PlaceOps(const OperatorDag& dag, std::span<const KernelChoice> choices,
                                     SimTime launch) {
  FORETRACE_RETURN_IF_ERROR(CheckCovered(dag, choices));
  return Solver(dag, Everything(dag), choices, launch, Calls::kNone, nullptr).Run();
}

absl::StatusOr<std::vector<OpPlacement>> RankPlacements(const OperatorDag& dag,
                                                        std::span<const KernelChoice> choices,
                                                        SimTime launch, size_t count) {
  FORETRACE_RETURN_IF_ERROR(CheckCovered(dag, choices));
  return Solver(dag, Everything(dag), choices, launch, Calls::kNone, nullptr,
                std::max<size_t>(count, 1))
      .RunAll();
}

absl::StatusOr<OpPlacement> PlaceWithCalls(const OperatorDag& dag,
                                           std::span<const KernelChoice> choices, SimTime launch,
                                           const EngineCall& engine) {
  FORETRACE_RETURN_IF_ERROR(CheckCovered(dag, choices));
  return Solver(dag, Everything(dag), choices, launch, Calls::kSome, &engine).Run();
}

absl::StatusOr<OpPlacement> PlaceCall(const OperatorDag& dag, std::span<const KernelChoice> choices,
                                      SimTime launch, const EngineCall& engine,
                                      const std::vector<int32_t>& ops) {
  std::vector<bool> chosen(static_cast<size_t>(dag.size()));
  for (const int32_t op : ops) chosen[static_cast<size_t>(op)] = true;
  return Solver(dag, chosen, choices, launch, Calls::kOne, &engine).Run();
}

}  // namespace foretrace
