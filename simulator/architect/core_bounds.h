#pragma once
// Lower bounds on what is left of a layer's schedule.

#include <cstdint>
#include <vector>

#include "simulator/architect/core_graph.h"

namespace foretrace {

// An operator that runs on one core, and for how much longer.
struct Remaining {
  int32_t op = 0;
  SimTime left;
};

// Whatever operators run on all cores, their times add up; the others take at least the time of any
// path through them, and that of their load on each kind of core. For weights that sum to 1 the
// weighted mean of these is a bound too, and the best choice of modes under it is one operator at a
// time: the lesser of `all` and its weighted time on one core. The largest of the bounds of several
// weights (Lagrangian relaxation) covers the longest path and the loads by themselves.
class CoreBounds {
 public:
  // Chooses the weights that bound the whole graph best. `order` is topological.
  CoreBounds(const CoreGraph& graph, const std::vector<int32_t>& order, const CoreCounts& cores);

  // Bits of operators that have started; those of them that still run.
  template <typename Running>
  SimTime Left(uint64_t started, const Running& running) const {
    double best = 0;
    for (const Weights& w : weights_) {
      double off = 0, path = 0;
      for (const auto& r : running) {
        const auto i = static_cast<size_t>(r.op);
        const auto left = static_cast<double>(r.left.ps());
        off += w.load[i] * left;
        path = path > w.path * left + w.after[i] ? path : w.path * left + w.after[i];
      }
      for (size_t i = 0; i < w.off.size(); ++i) {
        if (started >> i & 1) continue;
        off += w.off[i];
        path = path > w.tail[i] ? path : w.tail[i];
      }
      best = best > off + path ? best : off + path;
    }
    return RoundedDown(best);
  }
  SimTime Whole() const { return Left(0, std::vector<Remaining>()); }

 private:
  struct Weights {
    double path = 0;
    std::vector<double> load;  // of a picosecond on one core, by operator
    std::vector<double> off;   // an operator's share off the path
    std::vector<double> tail,
        after;  // what the longest path adds, from an operator on and behind it
    double whole = 0;
  };
  static SimTime RoundedDown(double ps);
  static Weights Make(const CoreGraph& graph, const std::vector<int32_t>& order, double path,
                      double per_tensor, double per_vector);

  std::vector<Weights> weights_;
};

}  // namespace foretrace
