#include "simulator/architect/core_search.h"

#include <algorithm>
#include <bit>
#include <queue>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "simulator/architect/core_bounds.h"
#include "simulator/base/check.h"

namespace foretrace {
namespace {

struct Running {
  int8_t op = 0;
  int8_t core = 0;
  SimTime left;
};

// Between two decisions at one instant. Operators that start at one instant do so in order of
// their numbers, from `floor` on.
struct State {
  uint64_t started = 0;          // running ones among them
  std::vector<Running> running;  // by op
  SimTime elapsed;
  int8_t floor = 0;
  int32_t parent = -1;
};

constexpr int8_t kNobody = -1;
constexpr int8_t kUnpaired = -2;

uint64_t Bit(int op) { return uint64_t{1} << op; }

class Search {
 public:
  Search(const CoreGraph& graph, const std::vector<int32_t>& order, const CoreCounts& cores)
      : graph_(graph), n_(static_cast<int>(graph.ops.size())), bounds_(graph, order, cores) {
    int needed[2] = {0, 0};
    before_.resize(graph.ops.size());
    for (int i = 0; i < n_; ++i) {
      const CoreOp& op = Op(i);
      if (op.core != CoreClass::kVector) ++needed[0];
      if (op.core != CoreClass::kTensor) ++needed[1];
      if (op.core == CoreClass::kFused) fused_ |= Bit(i);
    }
    // More cores than operators that can use them change nothing.
    tensor_ = std::min(cores.tensor, std::max(needed[0], 1));
    vector_ = std::min(cores.vector, std::max(needed[1], 1));
    for (const auto& [from, to] : graph.edges) before_[Index(to)] |= Bit(from);
  }

  CoreSchedule Run(CoreSchedule best, const ScheduleLimits& limits) {
    Push(State{}, best.makespan);
    best.nodes = 0;
    while (!open_.empty()) {
      const Entry top = open_.top();
      if (top.bound >= best.makespan) break;
      if (best.nodes == limits.max_nodes) {
        best.bound = std::max(best.bound, top.bound);
        return best;
      }
      open_.pop();
      if (stale(top)) continue;
      ++best.nodes;
      const State state = states_[Index(top.state)];
      if (std::popcount(state.started) == n_ && state.running.empty()) {
        CoreSchedule found = Trace(top.state);
        found.nodes = best.nodes;
        best = std::move(found);
        break;
      }
      Expand(state, top.state, best.makespan);
    }
    best.bound = best.makespan;
    return best;
  }

 private:
  struct Entry {
    SimTime bound;
    SimTime elapsed;
    int32_t state = 0;
    bool operator<(const Entry& o) const {  // the last in this order is expanded first
      if (bound != o.bound) return bound > o.bound;
      if (elapsed != o.elapsed) return elapsed < o.elapsed;
      return state > o.state;
    }
  };

  static size_t Index(int i) { return static_cast<size_t>(i); }
  const CoreOp& Op(int i) const { return graph_.ops[Index(i)]; }
  int pairs() const { return std::min(tensor_, vector_); }
  bool FusedAhead(const State& s) const { return (fused_ & ~s.started) != 0; }

  // The operator on the other core of a running one's pair.
  int8_t Mate(const State& s, const Running& r) const {
    if (r.core >= pairs()) return kUnpaired;
    for (const Running& other : s.running) {
      if (other.op != r.op && other.core == r.core && Op(other.op).core != Op(r.op).core) {
        return other.op;
      }
    }
    return kNobody;
  }

  // States of one key have the same future.
  std::string Key(const State& s) const {
    std::string key(reinterpret_cast<const char*>(&s.started), sizeof s.started);
    key += static_cast<char>(s.floor);
    const bool pairing = FusedAhead(s);
    for (const Running& r : s.running) {
      key += static_cast<char>(r.op);
      key += static_cast<char>(pairing ? Mate(s, r) : kNobody);
      const int64_t left = r.left.ps();
      key.append(reinterpret_cast<const char*>(&left), sizeof left);
    }
    return key;
  }

  SimTime Bound(const State& s) const { return s.elapsed + bounds_.Left(s.started, s.running); }

  bool stale(const Entry& e) const {
    const State& s = states_[Index(e.state)];
    return best_.at(Key(s)) < s.elapsed;
  }

  void Push(State state, SimTime limit) {
    const SimTime bound = Bound(state);
    if (bound >= limit) return;
    const auto [it, fresh] = best_.try_emplace(Key(state), state.elapsed);
    if (!fresh) {
      if (it->second <= state.elapsed) return;
      it->second = state.elapsed;
    }
    const auto id = static_cast<int32_t>(states_.size());
    open_.push({bound, state.elapsed, id});
    states_.push_back(std::move(state));
  }

  // Cores that an operator may start on now; of cores with the same future one.
  std::vector<int8_t> IdleCores(const State& s, CoreClass core) const {
    std::vector<int8_t> on_tensor(Index(tensor_), kNobody);
    std::vector<int8_t> on_vector(Index(vector_), kNobody);
    for (const Running& r : s.running) {
      if (Op(r.op).core != CoreClass::kVector) on_tensor[Index(r.core)] = r.op;
      if (Op(r.op).core != CoreClass::kTensor) on_vector[Index(r.core)] = r.op;
    }
    std::vector<int8_t> idle;
    std::vector<int8_t> seen;
    const int count = core == CoreClass::kTensor   ? tensor_
                      : core == CoreClass::kVector ? vector_
                                                   : pairs();
    for (int c = 0; c < count; ++c) {
      const int8_t tensor = c < tensor_ ? on_tensor[Index(c)] : kUnpaired;
      const int8_t vector = c < vector_ ? on_vector[Index(c)] : kUnpaired;
      if (core != CoreClass::kVector && tensor != kNobody) continue;
      if (core != CoreClass::kTensor && vector != kNobody) continue;
      const int8_t other = core == CoreClass::kTensor ? vector : tensor;
      if (std::find(seen.begin(), seen.end(), other) != seen.end()) continue;
      seen.push_back(other);
      idle.push_back(static_cast<int8_t>(c));
      if (!FusedAhead(s)) break;
    }
    return idle;
  }

  void Expand(const State& s, int32_t id, SimTime limit) {
    uint64_t done = s.started;
    for (const Running& r : s.running) done &= ~Bit(r.op);
    for (int i = 0; i < n_; ++i) {
      if ((s.started & Bit(i)) || (before_[Index(i)] & ~done)) continue;
      if (s.running.empty() && MayRunOnAll(Op(i))) {
        State next = s;
        next.parent = id;
        next.started |= Bit(i);
        next.elapsed += Op(i).all;
        next.floor = 0;
        Push(std::move(next), limit);
      }
      if (i < s.floor) continue;
      for (const int8_t core : IdleCores(s, Op(i).core)) {
        State next = s;
        next.parent = id;
        next.started |= Bit(i);
        next.floor = static_cast<int8_t>(i + 1);
        const Running r{static_cast<int8_t>(i), core, Op(i).one};
        next.running.insert(
            std::upper_bound(next.running.begin(), next.running.end(), r,
                             [](const Running& a, const Running& b) { return a.op < b.op; }),
            r);
        Push(std::move(next), limit);
      }
    }
    if (!s.running.empty()) Advance(s, id, limit);
  }

  // To the next end of an operator.
  void Advance(const State& s, int32_t id, SimTime limit) {
    SimTime step = SimTime::Max();
    for (const Running& r : s.running) step = std::min(step, r.left);
    State next;
    next.started = s.started;
    next.elapsed = s.elapsed + step;
    next.parent = id;
    for (Running r : s.running) {
      r.left -= step;
      if (r.left > SimTime()) next.running.push_back(r);
    }
    Push(std::move(next), limit);
  }

  CoreSchedule Trace(int32_t id) const {
    CoreSchedule schedule;
    schedule.ops.resize(graph_.ops.size());
    schedule.makespan = states_[Index(id)].elapsed;
    for (; states_[Index(id)].parent >= 0; id = states_[Index(id)].parent) {
      const State& now = states_[Index(id)];
      const State& was = states_[Index(now.parent)];
      const uint64_t fresh = now.started & ~was.started;
      if (fresh == 0) continue;
      const int op = std::countr_zero(fresh);
      ScheduledOp& at = schedule.ops[Index(op)];
      at.start = was.elapsed;
      const auto it = std::find_if(now.running.begin(), now.running.end(),
                                   [&](const Running& r) { return r.op == op; });
      at.on_all = it == now.running.end();
      if (!at.on_all) at.core = it->core;
      at.end = at.start + (at.on_all ? Op(op).all : Op(op).one);
    }
    return schedule;
  }

  const CoreGraph& graph_;
  const int n_;
  const CoreBounds bounds_;
  int tensor_ = 1, vector_ = 1;
  uint64_t fused_ = 0;
  std::vector<uint64_t> before_;
  std::vector<State> states_;
  std::priority_queue<Entry> open_;
  absl::flat_hash_map<std::string, SimTime> best_;
};

}  // namespace

CoreSchedule SearchSchedule(const CoreGraph& graph, const std::vector<int32_t>& order,
                            const CoreCounts& cores, const ScheduleLimits& limits) {
  FORETRACE_CHECK(graph.ops.size() <= kMaxSearchedOps);
  CoreSchedule start = ListSchedule(graph, order, cores);
  if (start.optimal()) return start;
  return Search(graph, order, cores).Run(std::move(start), limits);
}

}  // namespace foretrace
