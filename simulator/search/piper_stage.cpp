#include "simulator/search/piper_stage.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace foretrace::internal {

namespace {

RealBytes SyncOf(const std::map<int32_t, RealBytes>& sync, int32_t neighbour) {
  const auto it = sync.find(neighbour);
  return it == sync.end() ? RealBytes() : it->second;
}

double Memory(const PiperChoice& c, int32_t in_flight) {
  return c.memory_per_inflight * in_flight + c.memory_fixed;
}

class Selector {
 public:
  Selector(const PiperStageChoices& choices, double limit, int32_t in_flight)
      : choices_(choices), limit_(limit), y_(in_flight) {}

  PiperSelection Run() {
    const std::vector<int32_t> fastest = Extreme([](const PiperChoice& c) { return c.time_s; });
    if (MemoryOf(fastest) <= limit_) return Result(fastest);
    const std::vector<int32_t> leanest =
        Extreme([this](const PiperChoice& c) { return Memory(c, y_); });
    if (MemoryOf(leanest) > limit_) return {};
    PiperSelection best = Result(leanest);
    for (const bool truncate : {true, false}) {
      std::vector<int32_t> picked = fastest;
      if (!Greedy(picked, truncate)) continue;
      SwapBack(picked, fastest);
      if (PiperSelection r = Result(picked); r.time_s < best.time_s) best = std::move(r);
    }
    return best;
  }

 private:
  template <typename Key>
  std::vector<int32_t> Extreme(Key key) const {
    std::vector<int32_t> picked(choices_.size(), 0);
    for (size_t i = 0; i < choices_.size(); ++i) {
      for (size_t l = 1; l < choices_[i].size(); ++l) {
        if (key(choices_[i][l]) < key(At(i, picked))) picked[i] = static_cast<int32_t>(l);
      }
    }
    return picked;
  }
  const PiperChoice& At(size_t i, const std::vector<int32_t>& picked) const {
    return choices_[i][static_cast<size_t>(picked[i])];
  }
  double MemoryOf(const std::vector<int32_t>& picked) const {
    double sum = 0;
    for (size_t i = 0; i < picked.size(); ++i) sum += Memory(At(i, picked), y_);
    return sum;
  }
  PiperSelection Result(const std::vector<int32_t>& picked) const {
    PiperSelection r;
    r.feasible = true;
    r.memory_bytes = MemoryOf(picked);
    for (size_t i = 0; i < picked.size(); ++i) r.time_s += At(i, picked).time_s;
    r.choice = picked;
    return r;
  }

  // Repeats the swap that costs least time per byte saved; with `truncate`, bytes beyond what is
  // still needed do not count.
  bool Greedy(std::vector<int32_t>& picked, bool truncate) const {
    double excess = MemoryOf(picked) - limit_;
    while (excess > 0) {
      double least = std::numeric_limits<double>::infinity();
      size_t best_node = 0;
      int32_t best_option = -1;
      for (size_t i = 0; i < choices_.size(); ++i) {
        const PiperChoice& now = At(i, picked);
        for (size_t l = 0; l < choices_[i].size(); ++l) {
          const double saved = Memory(now, y_) - Memory(choices_[i][l], y_);
          if (saved <= 1e-9) continue;
          const double counted = truncate ? std::min(saved, excess) : saved;
          const double price = (choices_[i][l].time_s - now.time_s) / counted;
          if (price < least) {
            least = price;
            best_node = i;
            best_option = static_cast<int32_t>(l);
          }
        }
      }
      if (best_option < 0) return false;
      excess -= Memory(At(best_node, picked), y_) -
                Memory(choices_[best_node][static_cast<size_t>(best_option)], y_);
      picked[best_node] = best_option;
    }
    return MemoryOf(picked) <= limit_;
  }

  // Undoes what turned out unnecessary, the most expensive first.
  void SwapBack(std::vector<int32_t>& picked, const std::vector<int32_t>& fastest) const {
    std::vector<size_t> order;
    for (size_t i = 0; i < picked.size(); ++i) {
      if (picked[i] != fastest[i]) order.push_back(i);
    }
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      const double gain_a = At(a, picked).time_s - At(a, fastest).time_s;
      const double gain_b = At(b, picked).time_s - At(b, fastest).time_s;
      return gain_a != gain_b ? gain_a > gain_b : a < b;
    });
    double used = MemoryOf(picked);
    for (const size_t i : order) {
      const double after = used - Memory(At(i, picked), y_) + Memory(At(i, fastest), y_);
      if (after > limit_) continue;
      used = after;
      picked[i] = fastest[i];
    }
    if (MemoryOf(picked) > limit_) {
      // Rounding: redo without accumulating.
      for (const size_t i : order) {
        if (MemoryOf(picked) <= limit_) break;
        picked[i] = Extreme([this](const PiperChoice& c) { return Memory(c, y_); })[i];
      }
    }
  }

  const PiperStageChoices& choices_;
  double limit_;
  int32_t y_;
};

}  // namespace

PiperTables::PiperTables(const PiperProblem& problem) : nodes(problem.nodes.size()) {
  for (size_t v = 0; v < problem.nodes.size(); ++v) {
    for (const auto& [t, options] : problem.nodes[v]) {
      if (t > 1 && !problem.tensor_parallel) continue;
      std::vector<Option> list;
      for (size_t l = 0; l < options.size(); ++l) {
        const PiperOption& o = options[l];
        if (o.recompute && !problem.recompute) continue;
        list.push_back({o.time.seconds(),
                        o.parameter_bytes.count(),
                        o.memory_per_inflight.count(),
                        o.memory_fixed.count(),
                        static_cast<int32_t>(l),
                        {}});
        for (const PiperEdge& e : problem.edges) {
          const auto node = static_cast<int32_t>(v);
          if (e.to == node) {
            list.back().links.emplace_back(e.from,
                                           2 * (e.bytes + SyncOf(o.sync_in, e.from)).count());
          } else if (e.from == node) {
            list.back().links.emplace_back(e.to, 2 * (e.bytes + SyncOf(o.sync_out, e.to)).count());
          }
        }
      }
      if (!list.empty()) nodes[v][t] = std::move(list);
    }
  }
}

PiperStageChoices StageChoices(const PiperProblem& problem, const PiperTables& tables,
                               const std::vector<int32_t>& nodes, int32_t tensor, int32_t data) {
  PiperStageChoices choices;
  choices.reserve(nodes.size());
  std::vector<char> inside(tables.nodes.size(), 0);
  for (const int32_t v : nodes) inside[static_cast<size_t>(v)] = 1;
  const double resync_per_byte = 4.0 * (data - 1) / data / problem.batch;
  for (const int32_t v : nodes) {
    const auto& by_degree = tables.nodes[static_cast<size_t>(v)];
    const auto it = by_degree.find(tensor);
    if (it == by_degree.end()) return {};
    auto& list = choices.emplace_back();
    list.reserve(it->second.size());
    for (const PiperTables::Option& o : it->second) {
      double cut = 0;
      for (const auto& [u, bytes] : o.links) {
        if (!inside[static_cast<size_t>(u)]) cut += bytes;
      }
      const double bytes = cut / data + resync_per_byte * o.parameter_bytes;
      list.push_back({bytes / problem.bandwidth.bytes_per_second() + o.time_s / data,
                      o.memory_per_inflight, o.memory_fixed, o.index});
    }
  }
  return choices;
}

PiperSelection SelectOptions(const PiperStageChoices& choices, double memory_bytes,
                             int32_t in_flight) {
  return Selector(choices, memory_bytes, in_flight).Run();
}

PiperBounds BoundSelection(const PiperStageChoices& choices, double memory_bytes,
                           int32_t in_flight) {
  struct Swap {
    double time_s, saved;
  };
  PiperBounds bounds;
  std::vector<Swap> swaps;
  double excess = -memory_bytes;
  bool binary = true;
  for (const auto& list : choices) {
    const auto fastest = std::min_element(
        list.begin(), list.end(), [](const auto& x, const auto& y) { return x.time_s < y.time_s; });
    bounds.lower_s += fastest->time_s;
    excess += Memory(*fastest, in_flight);
    binary &= list.size() <= 2;
    for (const PiperChoice& c : list) {
      const double saved = Memory(*fastest, in_flight) - Memory(c, in_flight);
      if (saved > 1e-9) swaps.push_back({c.time_s - fastest->time_s, saved});
    }
  }
  if (!binary) {
    bounds.upper_s = std::numeric_limits<double>::infinity();
    return bounds;
  }
  bounds.upper_s = bounds.lower_s;
  std::sort(swaps.begin(), swaps.end(),
            [](const Swap& a, const Swap& b) { return a.time_s * b.saved < b.time_s * a.saved; });
  for (const Swap& swap : swaps) {
    if (excess <= 0) break;
    bounds.lower_s += swap.time_s * std::min(1.0, excess / swap.saved);
    bounds.upper_s += swap.time_s;
    excess -= swap.saved;
  }
  return bounds;
}

}  // namespace foretrace::internal
