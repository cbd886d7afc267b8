#include "simulator/architect/core_windows.h"

#include <algorithm>
#include <set>

namespace foretrace {
namespace {

// Of the shortest ways to run what is before (head) and behind (tail) each operator.
struct Ends {
  std::vector<SimTime> head, tail;

  Ends(const CoreGraph& graph, const std::vector<int32_t>& order)
      : head(order.size()), tail(order.size()) {
    const auto raise = [&](std::vector<SimTime>& of, int32_t to, int32_t by) {
      const auto i = static_cast<size_t>(by), j = static_cast<size_t>(to);
      of[j] = std::max(of[j], of[i] + Shortest(graph.ops[i]));
    };
    for (size_t k = 0; k < order.size(); ++k) {
      for (const auto& [from, to] : graph.edges) {
        if (from == order[k]) raise(head, to, from);
        if (to == order[order.size() - 1 - k]) raise(tail, from, to);
      }
    }
  }
};

struct Candidate {
  double value = 0;
  CoreWindow window;
};

void AddBetween(const std::vector<std::vector<bool>>& reaches, CoreWindow& window) {
  const size_t n = reaches.size();
  window.between.assign(n, false);
  for (size_t k = 0; k < n; ++k) {
    bool behind = false, before = false;
    for (size_t i = 0; i < n; ++i) {
      behind |= window.in[i] && reaches[i][k];
      before |= window.in[i] && reaches[k][i];
    }
    window.between[k] = !window.in[k] && behind && before;
  }
}

std::vector<Candidate> Candidates(const CoreGraph& graph, const Ends& ends, CoreClass core,
                                  int32_t cores) {
  const std::set<SimTime> heads(ends.head.begin(), ends.head.end());
  const std::set<SimTime> tails(ends.tail.begin(), ends.tail.end());
  std::vector<Candidate> found;
  for (const SimTime head : heads) {
    for (const SimTime tail : tails) {
      Candidate c;
      c.window.core = core;
      c.window.around = head + tail;
      if (c.window.around == SimTime()) continue;
      c.window.in.assign(graph.ops.size(), false);
      int32_t count = 0;
      SimTime load;
      for (size_t i = 0; i < graph.ops.size(); ++i) {
        if (!Uses(graph.ops[i], core) || ends.head[i] < head || ends.tail[i] < tail) continue;
        c.window.in[i] = true;
        load += graph.ops[i].one;
        ++count;
      }
      if (count <= cores) continue;  // no better than paths
      c.value = static_cast<double>(c.window.around.ps()) + static_cast<double>(load.ps()) / cores;
      found.push_back(std::move(c));
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Candidate& a, const Candidate& b) { return a.value > b.value; });
  return found;
}

}  // namespace

std::vector<CoreWindow> CoreWindows(const CoreGraph& graph, const std::vector<int32_t>& order,
                                    const std::vector<std::vector<bool>>& reaches,
                                    const CoreCounts& cores, size_t most) {
  const Ends ends(graph, order);
  std::vector<CoreWindow> windows;
  for (const auto& [core, count] :
       {std::pair(CoreClass::kTensor, cores.tensor), std::pair(CoreClass::kVector, cores.vector)}) {
    std::set<std::vector<bool>> taken;
    for (Candidate& c : Candidates(graph, ends, core, count)) {
      if (taken.size() == most) break;
      if (!taken.insert(c.window.in).second) continue;
      AddBetween(reaches, c.window);
      windows.push_back(std::move(c.window));
    }
  }
  return windows;
}

}  // namespace foretrace
