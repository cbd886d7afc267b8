#include "simulator/backends/call_placement.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"

namespace foretrace {
namespace {

using Ops = absl::InlinedVector<int32_t, 8>;  // ascending

// Operators that are done, with all that they wait for.
struct Frontier {
  int32_t prefix = 0;  // all before it are done,
  Ops beyond;          // and these
  bool Has(int32_t op) const { return op < prefix || std::ranges::binary_search(beyond, op); }
};

// How a frontier is reached, at its end within a call or not.
struct Arrival {
  SimTime cost = SimTime::Max();
  int32_t choice = -1;
  int32_t previous = -1;  // frontier,
  bool previous_in_call = false;
  bool opens = false;  // the kernel is the first of a call
};
using Arrivals = std::array<Arrival, 2>;  // without, within

struct Live {
  int32_t id = 0;
  Frontier done;
  Ops ready;
  SimTime rest;  // of what is left, at least
};

class FrontierSearch {
 public:
  FrontierSearch(const OperatorView& dag, std::span<const KernelChoice> choices, SimTime launch,
                 const EngineCall& engine, SimTime cost_at_most, int64_t max_steps)
      : dag_(dag),
        choices_(choices),
        launch_(launch),
        engine_(engine),
        cost_at_most_(cost_at_most),
        layers_(static_cast<size_t>(dag.size()) + 1),
        by_op_(static_cast<size_t>(dag.size())),
        alone_(static_cast<size_t>(dag.size()), true),
        max_steps_(max_steps) {
    std::vector<SimTime> least;
    for (size_t i = 0; i < choices.size(); ++i) {
      const KernelChoice& kernel = choices[i];
      for (const int32_t op : kernel.ops) {
        if (IsEngine(kernel) || kernel.ops.size() > 1) alone_[static_cast<size_t>(op)] = false;
      }
      by_op_[static_cast<size_t>(kernel.ops.front())].push_back(static_cast<int32_t>(i));
      least.push_back(IsEngine(kernel) ? std::min(engine.Within(kernel), kernel.Alone(launch))
                                       : kernel.Alone(launch));
    }
    bounds_ = OperatorBounds(dag.size(), choices, least);
  }

  CallPlacement Run() {
    Live start;
    for (int32_t op = 0; op < dag_.size(); ++op) {
      start.rest += bounds_[static_cast<size_t>(op)];
      if (IsReady(start.done, op)) start.ready.push_back(op);
    }
    arrivals_.push_back({Arrival{SimTime()}, Arrival{}});
    layers_[0].push_back(std::move(start));
    for (size_t layer = 0; layer + 1 < layers_.size(); ++layer) {
      known_[layer].clear();
      std::vector<Live> live = std::exchange(layers_[layer], {});
      Narrow(live, WidthOf(layer));
      for (const Live& from : live) Expand(from);
    }
    CallPlacement found;
    const bool reached = !layers_.back().empty();
    if (reached) found.placement = Result(layers_.back().front().id);
    // Every frontier left out leads to no less than its bound.
    const SimTime known = reached ? found.placement.cost : cost_at_most_;
    found.proven = left_out_ >= known;
    found.bound = std::min(left_out_, known);
    return found;
  }

 private:
  bool IsEngine(const KernelChoice& kernel) const { return kernel.backend == engine_.backend; }
  const KernelChoice& Kernel(int32_t choice) const { return choices_[static_cast<size_t>(choice)]; }
  Arrivals& At(int32_t id) { return arrivals_[static_cast<size_t>(id)]; }

  bool IsReady(const Frontier& done, int32_t op) const {
    return std::ranges::all_of(dag_.op(op).inputs, [&](int32_t producer) {
      return producer == kNoProducer || done.Has(producer);
    });
  }

  bool CanRun(const Frontier& done, const KernelChoice& kernel) const {
    for (const int32_t op : kernel.ops) {
      if (done.Has(op)) return false;
      for (const int32_t producer : dag_.op(op).inputs) {
        if (producer != kNoProducer && !done.Has(producer) &&
            !std::ranges::binary_search(kernel.ops, producer)) {
          return false;
        }
      }
    }
    return true;
  }

  SimTime BoundOf(const Live& live) {
    const Arrivals& at = At(live.id);
    return std::min(at[0].cost, at[1].cost) + live.rest;
  }

  // What is left of the steps, shared evenly over the layers to come, as frontiers.
  size_t WidthOf(size_t layer) const {
    const auto layers = static_cast<int64_t>(layers_.size() - 1 - layer);
    const int64_t each = std::max<int64_t>(expanded_ > 0 ? steps_ / expanded_ : 1, 1);
    return static_cast<size_t>(std::max<int64_t>((max_steps_ - steps_) / layers / each, 1));
  }

  // Leaves the most promising.
  void Narrow(std::vector<Live>& live, size_t widest) {
    expanded_ += static_cast<int64_t>(std::min(live.size(), widest));
    if (live.size() <= widest) return;
    std::vector<std::pair<SimTime, size_t>> order;
    for (size_t i = 0; i < live.size(); ++i) order.emplace_back(BoundOf(live[i]), i);
    std::ranges::sort(order);
    left_out_ = std::min(left_out_, order[widest].first);
    std::vector<Live> kept;
    for (size_t i = 0; i < widest; ++i) kept.push_back(std::move(live[order[i].second]));
    live = std::move(kept);
  }

  void Expand(const Live& from) {
    const auto [without, within] = At(from.id);
    const bool ended_in_call = within.cost < without.cost;
    const SimTime cost = std::min(without.cost, within.cost);
    // What can only run by itself may do so as soon as no call is open.
    const auto eager = std::ranges::find_if(
        from.ready, [&](int32_t op) { return alone_[static_cast<size_t>(op)]; });
    for (const int32_t first : from.ready) {
      for (const int32_t choice : by_op_[static_cast<size_t>(first)]) {
        const KernelChoice& kernel = Kernel(choice);
        ++steps_;
        if (!CanRun(from.done, kernel)) continue;
        const bool waits = eager != from.ready.end() && *eager != first;
        if (!waits) {
          Reach(from, choice, false,
                {cost + kernel.Alone(launch_), choice, from.id, ended_in_call, false});
        }
        if (!IsEngine(kernel)) continue;
        const SimTime added = engine_.Within(kernel);
        if (within.cost < SimTime::Max()) {
          Reach(from, choice, true, {within.cost + added, choice, from.id, true, false});
        }
        if (!waits && without.cost < SimTime::Max()) {
          Reach(from, choice, true,
                {without.cost + added + engine_.Opening(launch_), choice, from.id, false, true});
        }
      }
    }
  }

  void Reach(const Live& from, int32_t choice, bool in_call, const Arrival& arrival) {
    const std::vector<int32_t>& ops = Kernel(choice).ops;
    SimTime rest = from.rest;
    for (const int32_t op : ops) rest -= bounds_[static_cast<size_t>(op)];
    if (arrival.cost + rest > cost_at_most_) return;
    Frontier done = from.done;
    const size_t layer = static_cast<size_t>(done.prefix) + done.beyond.size() + ops.size();
    Ops beyond;
    std::ranges::set_union(done.beyond, ops, std::back_inserter(beyond));
    size_t gone = 0;
    while (gone < beyond.size() && beyond[gone] == done.prefix) ++gone, ++done.prefix;
    done.beyond.assign(beyond.begin() + static_cast<std::ptrdiff_t>(gone), beyond.end());
    const auto [entry, is_new] = known_[layer].try_emplace(std::pair(done.prefix, done.beyond),
                                                           static_cast<int32_t>(arrivals_.size()));
    if (is_new) {
      arrivals_.emplace_back();
      Live& live = layers_[layer].emplace_back();
      live.id = entry->second;
      live.rest = rest;
      for (const int32_t op : from.ready) {
        if (!std::ranges::binary_search(ops, op)) live.ready.push_back(op);
      }
      for (const int32_t reader : dag_.consumers(ops.back())) {
        if (IsReady(done, reader)) live.ready.push_back(reader);
      }
      std::ranges::sort(live.ready);
      live.done = std::move(done);
    }
    Arrival& best = At(entry->second)[in_call ? 1 : 0];
    if (arrival.cost < best.cost) best = arrival;
  }

  OpPlacement Result(int32_t last) {
    OpPlacement placement;
    std::vector<std::pair<int32_t, int32_t>> found;  // choice, call counted from the end
    int32_t calls = 0;
    bool in_call = At(last)[1].cost < At(last)[0].cost;
    placement.cost = At(last)[in_call ? 1 : 0].cost;
    for (int32_t at = last; at != 0;) {
      const Arrival& arrival = At(at)[in_call ? 1 : 0];
      found.emplace_back(arrival.choice, in_call ? calls : -1);
      calls += arrival.opens;
      at = arrival.previous;
      in_call = arrival.previous_in_call;
    }
    std::ranges::sort(found, {}, [&](const auto& pair) { return Kernel(pair.first).ops.back(); });
    for (const auto& [choice, call] : found) {
      placement.choices.push_back(choice);
      placement.calls.push_back(call < 0 ? -1 : calls - 1 - call);
    }
    return placement;
  }

  const OperatorView& dag_;
  std::span<const KernelChoice> choices_;
  SimTime launch_;
  const EngineCall& engine_;
  SimTime cost_at_most_;
  std::vector<std::vector<Live>> layers_;  // by how many operators are done
  std::vector<absl::flat_hash_map<std::pair<int32_t, Ops>, int32_t>> known_{layers_.size()};
  std::vector<Arrivals> arrivals_;           // by frontier
  std::vector<std::vector<int32_t>> by_op_;  // choices by their first operator
  std::vector<bool> alone_;  // operators that only kernels of their own run, none the engine's
  std::vector<SimTime> bounds_;
  int64_t max_steps_;
  int64_t steps_ = 0;     // kernels tried,
  int64_t expanded_ = 0;  // from so many frontiers
  SimTime left_out_ = SimTime::Max();
};

}  // namespace

std::vector<SimTime> OperatorBounds(int32_t operators, std::span<const KernelChoice> choices,
                                    std::span<const SimTime> costs) {
  std::vector<SimTime> bounds(static_cast<size_t>(operators), SimTime::Max());
  const auto bound = [&](int32_t op) -> SimTime& { return bounds[static_cast<size_t>(op)]; };
  std::vector<std::vector<size_t>> of(bounds.size());
  for (size_t i = 0; i < choices.size(); ++i) {
    if (costs[i] == SimTime::Max()) continue;
    const auto count = static_cast<int64_t>(choices[i].ops.size());
    const SimTime share = SimTime::FromPs(costs[i].ps() / count);
    for (const int32_t op : choices[i].ops) {
      bound(op) = std::min(bound(op), share);
      of[static_cast<size_t>(op)].push_back(i);
    }
  }
  std::vector<SimTime> slack(choices.size());
  for (size_t i = 0; i < choices.size(); ++i) {
    if (costs[i] == SimTime::Max()) continue;
    slack[i] = costs[i];
    for (const int32_t op : choices[i].ops) slack[i] -= bound(op);
  }
  for (int32_t op = 0; op < operators; ++op) {
    const std::vector<size_t>& kernels = of[static_cast<size_t>(op)];
    if (kernels.empty()) continue;
    SimTime more = SimTime::Max();
    for (const size_t i : kernels) more = std::min(more, slack[i]);
    bound(op) += more;
    for (const size_t i : kernels) slack[i] -= more;
  }
  return bounds;
}

absl::StatusOr<CallPlacement> PlaceWithCalls(const OperatorView& dag,
                                             std::span<const KernelChoice> choices, SimTime launch,
                                             const EngineCall& engine, SimTime cost_at_most,
                                             int64_t max_steps) {
  FORETRACE_RETURN_IF_ERROR(CheckCovered(dag, choices));
  CallPlacement found = FrontierSearch(dag, choices, launch, engine, cost_at_most, max_steps).Run();
  if (found.proven && found.bound == SimTime::Max()) {
    return Infeasible("no set of kernels covers every operator exactly once");
  }
  return found;
}

}  // namespace foretrace
