#include "simulator/search/phaze.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "simulator/base/error.h"
#include "simulator/base/gib.h"
#include "simulator/base/status_macros.h"
#include "simulator/search/phaze_loads.h"

namespace foretrace {
namespace {

// One choice. dp[downset][stages][accelerators], downsets successor-closed.
class ChoiceSolver {
 public:
  ChoiceSolver(const PhazeChoice& choice, const DownsetLattice& lattice,
               const PhazeStageLoads& loads)
      : p_(choice.problem), c_(choice), lattice_(lattice), loads_(loads) {}

  void Improve(PhazePlan& best) {
    // In a chain of stages a stage uses `width` accelerators or, without sliced layers, one.
    const size_t cells = lattice_.size() * Depths();
    table_.assign(cells, {});
    table_[0].push_back({0, 0, 0, 0, {}});
    SumUp();
    for (size_t inner = 0; inner + 1 < lattice_.size(); ++inner) {
      const auto [depth, accelerators] = Nearest(inner);
      if (depth < 0) continue;
      for (size_t outer = inner + 1; outer < lattice_.size(); ++outer) {
        if (!lattice_.IsSubset(inner, outer)) continue;
        // Most stages are too large for memory, or too slow for any plan that is better.
        if (bytes_[outer] - bytes_[inner] > most_bytes_) continue;
        const Entry least{work_[outer] - work_[inner] - rounding_s_, accelerators + 1, 0, 0, {}};
        if (least.accelerators > p_.accelerators ||
            LeastTime(least, depth + 1) >= best.batch.seconds()) {
          continue;
        }
        const PhazeLoad load = loads_.Of(lattice_.Difference(inner, outer));
        Extend(inner, outer, load, best);
      }
    }
  }

 private:
  struct Entry {
    double load_s = 0;
    int32_t accelerators = 0;
    uint32_t inner = 0;
    int32_t index = 0;  // of the entry that it extends
    PhazeLoad stage;
  };

  // What a stage between two downsets takes at least, and keeps, is the difference of these; sums
  // are rounded, so that they rule nothing out that is closer to a limit than that.
  void SumUp() {
    std::vector<double> work, bytes;
    for (const PhazeLayer& layer : c_.model.layers) {
      work.push_back((layer.forward + layer.backward).seconds());
      bytes.push_back(PhazeKept(p_, layer).count());
    }
    work_ = lattice_.Sums(work);
    bytes_ = lattice_.Sums(bytes);
    constexpr double kRounding = 1e-9;
    rounding_s_ = kRounding * work_.back();
    most_bytes_ = (p_.memory - c_.model.reserved_bytes).count() + kRounding * bytes_.back();
  }

  // Fewest stages and fewest accelerators of what is known of a downset; fewer than 0: nothing.
  std::pair<int32_t, int32_t> Nearest(size_t set) {
    int32_t depth = -1, accelerators = p_.accelerators;
    for (int32_t s = 0; s < p_.layers; ++s) {
      for (const Entry& entry : Cell(set, s)) {
        if (depth < 0) depth = s;
        accelerators = std::min(accelerators, entry.accelerators);
      }
    }
    return {depth, accelerators};
  }

  size_t Depths() const { return static_cast<size_t>(p_.layers) + 1; }
  std::vector<Entry>& Cell(size_t set, int32_t s) {
    return table_[set * Depths() + static_cast<size_t>(s)];
  }

  void Extend(size_t inner, size_t outer, const PhazeLoad& load, PhazePlan& best) {
    const bool last = outer == lattice_.full();
    for (int32_t s = 1; s <= std::min(load.max_depth, p_.layers); ++s) {
      const auto& from = Cell(inner, s - 1);
      for (size_t i = 0; i < from.size(); ++i) {
        const Entry entry{std::max(from[i].load_s, load.At(s)),
                          from[i].accelerators + load.accelerators, static_cast<uint32_t>(inner),
                          static_cast<int32_t>(i), load};
        if (entry.accelerators > p_.accelerators) continue;
        if (LeastTime(entry, s) >= best.batch.seconds()) continue;
        if (last) {
          Finish(entry, s, best);
        } else {
          Insert(Cell(outer, s), entry);
        }
      }
    }
  }

  // No plan that goes on from an entry takes less: loads, stages and accelerators only grow, and
  // gradients come on top.
  double LeastTime(const Entry& entry, int32_t s) const {
    const int32_t most =
        std::max(std::min(p_.accelerators / entry.accelerators, c_.microbatches), 1);
    return entry.load_s * PhazeFactor(c_, most, s);
  }

  // Keeps entries that no other beats in both load and accelerators.
  static void Insert(std::vector<Entry>& cell, const Entry& entry) {
    for (const Entry& e : cell) {
      if (e.load_s <= entry.load_s && e.accelerators <= entry.accelerators) return;
    }
    // Entries of a cell are referred to by index, but only once the cell is complete: smaller
    // downsets are finished before larger ones are extended.
    std::erase_if(cell, [&](const Entry& e) {
      return entry.load_s <= e.load_s && entry.accelerators <= e.accelerators;
    });
    cell.push_back(entry);
  }

  void Finish(const Entry& entry, int32_t s, PhazePlan& best) {
    const int32_t most = std::min(p_.accelerators / entry.accelerators, c_.microbatches);
    for (int32_t d = 1; d <= most; ++d) {
      if (p_.even && (c_.microbatches % d != 0 || d * entry.accelerators != p_.accelerators)) {
        continue;
      }
      const double time =
          entry.load_s * PhazeFactor(c_, d, s) + PhazeSyncTime(p_, entry.stage.parameter_bytes, d);
      if (time >= best.batch.seconds()) continue;
      best.batch = RealSeconds(time);
      best.data_parallel = d;
      best.width = c_.option.width;
      best.micro_batch = c_.option.micro_batch;
      // One stage keeps nothing beside what it works on.
      best.recompute = c_.recompute && s > 1;
      best.stages.clear();
      size_t outer = lattice_.full();
      Entry at = entry;
      for (int32_t depth = s;; --depth) {
        best.stages.push_back({lattice_.Difference(at.inner, outer), at.stage.accelerators,
                               RealSeconds(at.stage.At(depth)), at.stage.MemoryAt(depth)});
        if (depth == 1) break;
        outer = at.inner;
        at = Cell(at.inner, depth - 1)[static_cast<size_t>(at.index)];
      }
    }
  }

  const PhazeProblem& p_;
  const PhazeChoice& c_;
  const DownsetLattice& lattice_;
  const PhazeStageLoads& loads_;
  std::vector<std::vector<Entry>> table_;
  std::vector<double> work_, bytes_;  // by downset
  double rounding_s_ = 0, most_bytes_ = 0;
};

absl::Status Improve(const PhazeProblem& problem, const PhazeOption& option, PhazePlan& best) {
  FORETRACE_ASSIGN_OR_RETURN(const PhazeLayers model, problem.layers_of(option));
  FORETRACE_ASSIGN_OR_RETURN(const OpGraph graph, PhazeGraph(problem, option, model));
  FORETRACE_ASSIGN_OR_RETURN(const DownsetLattice lattice,
                             DownsetLattice::Enumerate(graph.Reversed(), problem.max_downsets));
  for (const PhazeActivations activations : problem.activations) {
    if (option.bound >= best.batch) break;
    const PhazeChoice choice{problem, model, option, activations == PhazeActivations::kRecompute,
                             problem.MicroBatches(option)};
    const PhazeStageLoads loads(choice, graph);
    ChoiceSolver(choice, lattice, loads).Improve(best);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PhazePlan> PlacePhaze(const PhazeProblem& problem) {
  FORETRACE_RETURN_IF_ERROR(CheckProblem(problem));
  std::vector<PhazeOption> order = problem.options;
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.bound < b.bound; });
  PhazePlan best;
  best.batch = RealSeconds::Infinite();
  bool left_out = false;
  for (const PhazeOption& option : order) {
    if (option.bound == RealSeconds::Infinite()) break;
    if (option.bound >= problem.bound_below) {
      left_out = true;
      break;
    }
    if (option.bound >= best.batch) break;
    FORETRACE_RETURN_IF_ERROR(Improve(problem, option, best));
  }
  if (best.stages.empty() && !left_out) {
    return Infeasible(
        "phaze: no placement on {} accelerators fits in {:.2f} GiB each; more accelerators or "
        "memory, a larger tensor-parallel width or recomputation would help",
        problem.accelerators, Gib(problem.memory));
  }
  return best;
}

}  // namespace foretrace
