#include <algorithm>

#include "simulator/architect/core_bounds.h"
#include "simulator/architect/core_schedule.h"

namespace foretrace {
namespace {

// When each core is free again.
class Cores {
 public:
  explicit Cores(const CoreCounts& counts)
      : tensor_(static_cast<size_t>(counts.tensor)), vector_(static_cast<size_t>(counts.vector)) {}

  // The core (or pair) that is free first, and when.
  std::pair<int32_t, SimTime> First(CoreClass core) const {
    if (core == CoreClass::kTensor) return FirstOf(tensor_);
    if (core == CoreClass::kVector) return FirstOf(vector_);
    std::pair<int32_t, SimTime> best{0, SimTime::Max()};
    for (int32_t c = 0; c < static_cast<int32_t>(std::min(tensor_.size(), vector_.size())); ++c) {
      const SimTime free = FreeFrom(core, c);
      if (free < best.second) best = {c, free};
    }
    return best;
  }
  SimTime FreeFrom(CoreClass core, int32_t c) const {
    const auto at = static_cast<size_t>(c);
    if (core == CoreClass::kTensor) return tensor_[at];
    if (core == CoreClass::kVector) return vector_[at];
    return std::max(tensor_[at], vector_[at]);
  }
  void Occupy(CoreClass core, int32_t c, SimTime until) {
    if (core != CoreClass::kVector) tensor_[static_cast<size_t>(c)] = until;
    if (core != CoreClass::kTensor) vector_[static_cast<size_t>(c)] = until;
  }

 private:
  static std::pair<int32_t, SimTime> FirstOf(const std::vector<SimTime>& free) {
    const auto it = std::min_element(free.begin(), free.end());
    return {static_cast<int32_t>(it - free.begin()), *it};
  }
  std::vector<SimTime> tensor_, vector_;
};

std::vector<SimTime> Tails(const CoreGraph& graph, const std::vector<int32_t>& order) {
  std::vector<SimTime> tails(graph.ops.size());
  for (size_t k = order.size(); k-- > 0;) {
    const auto i = static_cast<size_t>(order[k]);
    tails[i] += Shortest(graph.ops[i]);
    for (const auto& [from, to] : graph.edges) {
      if (to == order[k]) {
        tails[static_cast<size_t>(from)] = std::max(tails[static_cast<size_t>(from)], tails[i]);
      }
    }
  }
  return tails;
}

// A topological order that takes the operator with the longest remaining path first.
std::vector<int32_t> ByTails(const CoreGraph& graph, const std::vector<SimTime>& tails) {
  std::vector<int32_t> waiting(graph.ops.size()), sequence;
  for (const auto& [from, to] : graph.edges) ++waiting[static_cast<size_t>(to)];
  std::vector<bool> taken(graph.ops.size());
  while (sequence.size() < graph.ops.size()) {
    int32_t best = -1;
    for (size_t i = 0; i < graph.ops.size(); ++i) {
      if (taken[i] || waiting[i] > 0) continue;
      if (best < 0 || tails[i] > tails[static_cast<size_t>(best)]) best = static_cast<int32_t>(i);
    }
    taken[static_cast<size_t>(best)] = true;
    sequence.push_back(best);
    for (const auto& [from, to] : graph.edges) {
      if (from == best) --waiting[static_cast<size_t>(to)];
    }
  }
  return sequence;
}

}  // namespace

CoreSchedule PlaceInOrder(const CoreGraph& graph, const std::vector<int32_t>& sequence,
                          const CoreCounts& counts, const std::vector<bool>& on_all,
                          const std::vector<int32_t>& on_core) {
  CoreSchedule schedule;
  schedule.ops.resize(graph.ops.size());
  std::vector<SimTime> ready(graph.ops.size());
  Cores cores(counts);
  SimTime alone_until;
  for (const int32_t id : sequence) {
    const auto i = static_cast<size_t>(id);
    const CoreOp& op = graph.ops[i];
    ScheduledOp& at = schedule.ops[i];
    at.on_all = on_all[i];
    if (at.on_all) {
      at.start = schedule.makespan;
      at.end = alone_until = at.start + op.all;
    } else {
      at.core = on_core.empty() ? cores.First(op.core).first : on_core[i];
      at.start = std::max({cores.FreeFrom(op.core, at.core), ready[i], alone_until});
      at.end = at.start + op.one;
      cores.Occupy(op.core, at.core, at.end);
    }
    schedule.makespan = std::max(schedule.makespan, at.end);
    for (const auto& [from, to] : graph.edges) {
      if (from == id) {
        ready[static_cast<size_t>(to)] = std::max(ready[static_cast<size_t>(to)], at.end);
      }
    }
  }
  return schedule;
}

SimTime MakespanBound(const CoreGraph& graph, const std::vector<int32_t>& order,
                      const CoreCounts& cores) {
  return CoreBounds(graph, order, cores).Whole();
}

CoreSchedule ListSchedule(const CoreGraph& graph, const std::vector<int32_t>& order,
                          const CoreCounts& cores) {
  const std::vector<int32_t> sequence = ByTails(graph, Tails(graph, order));
  std::vector<bool> on_all(graph.ops.size());
  CoreSchedule best = PlaceInOrder(graph, sequence, cores, on_all);
  for (size_t i = 0; i < on_all.size(); ++i) on_all[i] = MayRunOnAll(graph.ops[i]);
  CoreSchedule other = PlaceInOrder(graph, sequence, cores, on_all);
  if (other.makespan < best.makespan) {
    best = std::move(other);
  } else {
    on_all.assign(on_all.size(), false);
  }
  // One operator's mode at a time, while that helps.
  for (bool better = true; better;) {
    better = false;
    for (size_t i = 0; i < on_all.size(); ++i) {
      if (!MayRunOnAll(graph.ops[i])) continue;
      on_all[i] = !on_all[i];
      CoreSchedule changed = PlaceInOrder(graph, sequence, cores, on_all);
      if (changed.makespan < best.makespan) {
        best = std::move(changed);
        better = true;
      } else {
        on_all[i] = !on_all[i];
      }
    }
  }
  best.bound = MakespanBound(graph, order, cores);
  return best;
}

}  // namespace foretrace
