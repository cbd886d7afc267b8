#include "simulator/backends/graph_placement.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"

namespace foretrace {
namespace {

class OpSet {
 public:
  explicit OpSet(int32_t size) : words_((static_cast<size_t>(size) + 63) / 64) {}
  void Add(int32_t op) { words_[Word(op)] |= Bit(op); }
  bool Has(int32_t op) const { return (words_[Word(op)] & Bit(op)) != 0; }
  void Add(const OpSet& other) {
    for (size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
  }
  bool Meets(const OpSet& other) const {
    for (size_t i = 0; i < words_.size(); ++i) {
      if ((words_[i] & other.words_[i]) != 0) return true;
    }
    return false;
  }

 private:
  static size_t Word(int32_t op) { return static_cast<size_t>(op) / 64; }
  static uint64_t Bit(int32_t op) { return uint64_t{1} << (op % 64); }
  std::vector<uint64_t> words_;
};

// Sets of operators that grow by neighbours and stay convex.
class Neighbours {
 public:
  explicit Neighbours(const OperatorView& dag) : dag_(dag) {
    for (int32_t op = 0; op < dag.size(); ++op) {
      OpSet& before = before_.emplace_back(dag.size());
      for (const int32_t input : dag.op(op).inputs) {
        if (input == kNoProducer) continue;
        before.Add(input);
        before.Add(before_[static_cast<size_t>(input)]);
      }
    }
  }

  // `ops` ascending.
  std::vector<std::vector<int32_t>> Of(const std::vector<int32_t>& ops) const {
    std::vector<int32_t> set_of(static_cast<size_t>(dag_.size()), -1);
    std::vector<Set> sets;
    for (const int32_t op : ops) {
      Set own{{op}, OpSet(dag_.size()), before_[static_cast<size_t>(op)]};
      own.members.Add(op);
      std::vector<int32_t> merged;
      for (const int32_t input : dag_.op(op).inputs) {
        const int32_t set = input == kNoProducer ? -1 : set_of[static_cast<size_t>(input)];
        if (set < 0 || std::ranges::find(merged, set) != merged.end()) continue;
        Set both = Union(own, sets[static_cast<size_t>(set)]);
        if (!IsConvex(both)) continue;
        own = std::move(both);
        merged.push_back(set);
      }
      const auto id = static_cast<int32_t>(sets.size());
      for (const int32_t member : own.ops) set_of[static_cast<size_t>(member)] = id;
      for (const int32_t set : merged) sets[static_cast<size_t>(set)].ops.clear();
      sets.push_back(std::move(own));
    }
    std::vector<std::vector<int32_t>> all;
    for (Set& set : sets) {
      if (!set.ops.empty()) all.push_back(std::move(set.ops));
    }
    std::ranges::sort(all);
    return all;
  }

  // Whether the sets, each run at once, can be put in an order at all: two may wait for each other.
  bool CanRun(const std::vector<std::vector<int32_t>>& sets) const {
    std::vector<int32_t> node(static_cast<size_t>(dag_.size()));
    std::iota(node.begin(), node.end(), 0);
    for (const std::vector<int32_t>& set : sets) {
      for (const int32_t op : set) node[static_cast<size_t>(op)] = set.front();
    }
    const auto of = [&](int32_t op) { return static_cast<size_t>(node[static_cast<size_t>(op)]); };
    std::vector<std::vector<size_t>> readers(node.size());
    std::vector<int32_t> waiting(node.size());
    for (int32_t op = 0; op < dag_.size(); ++op) {
      for (const int32_t input : dag_.op(op).inputs) {
        if (input == kNoProducer || of(input) == of(op)) continue;
        readers[of(input)].push_back(of(op));
        ++waiting[of(op)];
      }
    }
    std::vector<size_t> ready;
    size_t nodes = 0, done = 0;
    for (int32_t op = 0; op < dag_.size(); ++op) {
      if (of(op) != static_cast<size_t>(op)) continue;
      ++nodes;
      if (waiting[of(op)] == 0) ready.push_back(of(op));
    }
    for (; done < ready.size(); ++done) {
      for (const size_t reader : readers[ready[done]]) {
        if (--waiting[reader] == 0) ready.push_back(reader);
      }
    }
    return done == nodes;
  }

 private:
  struct Set {
    std::vector<int32_t> ops;  // ascending
    OpSet members;
    OpSet before;  // of any member
  };

  static Set Union(const Set& a, const Set& b) {
    Set both{{}, a.members, a.before};
    std::ranges::set_union(a.ops, b.ops, std::back_inserter(both.ops));
    both.members.Add(b.members);
    both.before.Add(b.before);
    return both;
  }

  // No operator outside lies between members.
  bool IsConvex(const Set& set) const {
    for (int32_t op = set.ops.front() + 1; op < set.ops.back(); ++op) {
      if (!set.before.Has(op) || set.members.Has(op)) continue;
      if (before_[static_cast<size_t>(op)].Meets(set.members)) return false;
    }
    return true;
  }

  const OperatorView& dag_;
  std::vector<OpSet> before_;  // by operator: all that it waits for
};

class GraphSearch {
 public:
  GraphSearch(const OperatorView& dag, std::span<const KernelChoice> choices, SimTime launch,
              const OpPlacement& op_level, const EngineCall& engine)
      : dag_(dag), choices_(choices), launch_(launch), engine_(engine), neighbours_(dag) {
    for (const int32_t choice : op_level.choices) {
      if (Kernel(choice).backend == engine.backend) {
        always_.insert(always_.end(), Kernel(choice).ops.begin(), Kernel(choice).ops.end());
      } else if (CallOf(Kernel(choice).ops) != nullptr) {
        groups_.push_back(choice);
      } else {
        fixed_.push_back(choice);
      }
    }
  }

  size_t groups() const { return groups_.size(); }
  size_t fixed() const { return fixed_.size(); }

  int64_t Cost(const Genome& genome) {
    const OpPlacement placed = Placement(genome);
    return placed.choices.empty() ? kImpossible : placed.cost.ps();
  }

  // Empty where the engine cannot run the calls that there would be.
  OpPlacement Placement(const Genome& genome) {
    OpPlacement placed;
    std::vector<std::pair<int32_t, int32_t>> kernels;  // choice, call
    std::vector<int32_t> ops = always_;
    const auto keep = [&](int32_t choice) {
      kernels.emplace_back(choice, -1);
      placed.cost += Kernel(choice).Alone(launch_);
    };
    for (const int32_t choice : fixed_) keep(choice);
    for (size_t i = 0; i < groups_.size(); ++i) {
      const std::vector<int32_t>& of = Kernel(groups_[i]).ops;
      if (genome[i] != 0) {
        ops.insert(ops.end(), of.begin(), of.end());
      } else {
        keep(groups_[i]);
      }
    }
    std::ranges::sort(ops);
    const std::vector<std::vector<int32_t>> calls = neighbours_.Of(ops);
    if (!neighbours_.CanRun(calls)) return {};
    for (size_t i = 0; i < calls.size(); ++i) {
      const OpPlacement* call = CallOf(calls[i]);
      if (call == nullptr) return {};
      if (call->choices.size() == 1) {  // as measured alone
        keep(call->choices.front());
        continue;
      }
      placed.cost += call->cost;
      for (const int32_t choice : call->choices) {
        kernels.emplace_back(choice, static_cast<int32_t>(i));
      }
    }
    std::ranges::sort(kernels, {},
                      [&](const auto& kernel) { return Kernel(kernel.first).ops.back(); });
    for (const auto& [choice, call] : kernels) {
      placed.choices.push_back(choice);
      placed.calls.push_back(call);
    }
    return placed;
  }

 private:
  static constexpr int64_t kImpossible = std::numeric_limits<int64_t>::max();

  const KernelChoice& Kernel(int32_t choice) const { return choices_[static_cast<size_t>(choice)]; }

  // Null: the engine has not the kernels.
  const OpPlacement* CallOf(const std::vector<int32_t>& ops) {
    const auto [entry, is_new] = calls_.try_emplace(ops);
    if (is_new) {
      absl::StatusOr<OpPlacement> placed = PlaceCall(dag_, choices_, launch_, engine_, ops);
      if (placed.ok()) entry->second = *std::move(placed);
    }
    return entry->second.has_value() ? &*entry->second : nullptr;
  }

  const OperatorView& dag_;
  std::span<const KernelChoice> choices_;
  SimTime launch_;
  const EngineCall& engine_;
  Neighbours neighbours_;
  std::vector<int32_t> always_;  // operators that op-level placement gives to the engine
  std::vector<int32_t> groups_, fixed_;
  std::map<std::vector<int32_t>, std::optional<OpPlacement>> calls_;
};

// As if the engine's kernels had neither launches nor calls.
absl::StatusOr<SimTime> BoundOf(const OperatorView& dag, std::span<const KernelChoice> choices,
                                SimTime launch, const EngineCall& engine) {
  std::vector<KernelChoice> free(choices.begin(), choices.end());
  for (KernelChoice& choice : free) {
    if (choice.backend != engine.backend) continue;
    choice.time = engine.Within(choice);
    choice.launches = 0;
  }
  FORETRACE_ASSIGN_OR_RETURN(const OpPlacement bound, PlaceOps(dag, free, launch));
  return bound.cost;
}

}  // namespace

std::vector<std::vector<int32_t>> NeighbouringOps(const OperatorView& dag,
                                                  const std::vector<int32_t>& ops) {
  return Neighbours(dag).Of(ops);
}

absl::StatusOr<GraphPlacement> PlaceGraph(const OperatorView& dag,
                                          std::span<const KernelChoice> choices, SimTime launch,
                                          const OpPlacement& op_level, const EngineCall& engine,
                                          const EvolutionSettings& settings,
                                          const std::stop_token& stop) {
  if (dag.size() > kMaxGraphLevelOps) {
    return Infeasible(
        "{}: graph-level placement takes up to {} operators, and it has {}; place a part",
        dag.name(), kMaxGraphLevelOps, dag.size());
  }
  GraphPlacement placement;
  GraphSearch search(dag, choices, launch, op_level, engine);
  placement.groups = static_cast<int32_t>(search.groups());
  placement.fixed_groups = static_cast<int32_t>(search.fixed());
  placement.evolution = Evolve(
      search.groups(), settings, [&](const Genome& g) { return search.Cost(g); }, stop);
  placement.evolved = search.Placement(placement.evolution.best);
  const SimTime known = std::min(op_level.cost, placement.evolved.cost);
  FORETRACE_ASSIGN_OR_RETURN(CallPlacement exact,
                             PlaceWithCalls(dag, choices, launch, engine, known));
  placement.proven = exact.proven;
  const bool found = !exact.placement.choices.empty();
  placement.exact = found ? std::move(exact.placement) : placement.evolved;
  FORETRACE_ASSIGN_OR_RETURN(const SimTime bound, BoundOf(dag, choices, launch, engine));
  placement.bound = std::max(bound, exact.bound);
  return placement;
}

}  // namespace foretrace
