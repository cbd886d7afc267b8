#include "simulator/search/phaze.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"

namespace foretrace {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int32_t kMaxAccelerators = 1 << 20;

// What a layer keeps on a device, without what other micro-batches in flight have it keep.
RealBytes KeptOf(const PhazeProblem& p, const PhazeLayer& layer) {
  return (2 + p.optimizer_factor) * layer.parameter_bytes + layer.state_bytes +
         layer.activation_bytes;
}

// Bare numbers of seconds and bytes, as all that the solver's inner loops see.
struct Load {
  double last_s = 0;  // as the last stage, which never recomputes
  double other_s = 0;
  int32_t max_depth = 0;  // deepest position from the end at which it fits in memory
  int32_t accelerators = 1;
  double base_bytes = 0, stash_bytes = 0, parameter_bytes = 0;

  double At(int32_t depth) const { return depth == 1 ? last_s : other_s; }
  RealBytes MemoryAt(int32_t depth) const {
    return RealBytes(base_bytes + (depth - 1) * stash_bytes);
  }
};

// What a problem comes to with one option and one rule for activations.
struct Choice {
  const PhazeProblem& problem;
  const PhazeLayers& model;
  PhazeOption option;
  bool recompute = false;
  int32_t microbatches = 1;
};

class StageLoads {
 public:
  StageLoads(const Choice& choice, const OpGraph& graph)
      : p_(choice.problem), c_(choice), graph_(graph) {
    position_.resize(static_cast<size_t>(p_.layers));
    for (size_t i = 0; i < graph.topological_order().size(); ++i) {
      position_[static_cast<size_t>(graph.topological_order()[i])] = static_cast<int32_t>(i);
    }
    in_.resize(static_cast<size_t>(p_.layers));
    out_.resize(static_cast<size_t>(p_.layers));
    for (const PhazeEdge& e : choice.model.edges) {
      in_[static_cast<size_t>(e.to)].emplace_back(e.from, e.bytes.count());
      out_[static_cast<size_t>(e.from)].emplace_back(e.to, e.bytes.count());
    }
  }

  Load Of(std::vector<int32_t> nodes) const {
    const std::vector<PhazeLayer>& layers = c_.model.layers;
    std::sort(nodes.begin(), nodes.end(), [&](int32_t a, int32_t b) {
      return position_[static_cast<size_t>(a)] < position_[static_cast<size_t>(b)];
    });
    std::vector<uint8_t> inside(static_cast<size_t>(p_.layers));  // not bits: it is asked often
    for (const int32_t v : nodes) inside[static_cast<size_t>(v)] = 1;
    const double bandwidth = p_.bandwidth.bytes_per_second();
    Load load;
    double forward = 0, repeat = 0, backward = 0;
    // One layer after another, each not before its inputs from other devices have arrived; all
    // transfers start with the microbatch.
    for (const int32_t v : nodes) {
      double arrival = 0;
      for (const auto& [u, bytes] : in_[static_cast<size_t>(v)]) {
        if (inside[static_cast<size_t>(u)] != 0) continue;
        arrival = std::max(arrival, bytes / bandwidth);
        load.stash_bytes += bytes;
      }
      const PhazeLayer& layer = layers[static_cast<size_t>(v)];
      forward = std::max(forward, arrival) + layer.forward.seconds();
      repeat += layer.forward.seconds();
      load.parameter_bytes += layer.parameter_bytes.count();
      load.base_bytes += KeptOf(p_, layer).count();
      if (!c_.recompute) load.stash_bytes += layer.activation_bytes.count();
      if (layer.sliced) load.accelerators = c_.option.width;
    }
    if (!c_.recompute) {
      for (const int32_t v : nodes) {
        for (const auto& [u, bytes] : in_[static_cast<size_t>(v)]) {
          if (inside[static_cast<size_t>(u)] == 0) load.stash_bytes -= bytes;
        }
      }
    }
    for (size_t i = nodes.size(); i-- > 0;) {
      double arrival = 0;
      for (const auto& [w, bytes] : out_[static_cast<size_t>(nodes[i])]) {
        if (inside[static_cast<size_t>(w)] == 0) arrival = std::max(arrival, bytes / bandwidth);
      }
      backward =
          std::max(backward, arrival) + layers[static_cast<size_t>(nodes[i])].backward.seconds();
    }
    load.last_s = forward + backward;
    load.other_s = load.last_s + (c_.recompute ? repeat : 0);
    load.base_bytes += c_.model.reserved_bytes.count();
    if (load.base_bytes <= p_.memory.count()) {
      const double room = p_.memory.count() - load.base_bytes;
      const double deeper = load.stash_bytes > 0 ? room / load.stash_bytes : kInfinity;
      load.max_depth = deeper >= p_.layers ? p_.layers : 1 + static_cast<int32_t>(deeper);
    }
    return load;
  }

 private:
  const PhazeProblem& p_;
  const Choice& c_;
  const OpGraph& graph_;
  std::vector<int32_t> position_;
  std::vector<std::vector<std::pair<int32_t, double>>> in_, out_;
};

double SyncTime(const PhazeProblem& p, double first_stage_bytes, int32_t d) {
  return 4.0 * (d - 1) * first_stage_bytes / (d * p.bandwidth.bytes_per_second());
}

double Factor(const Choice& c, int32_t d, int32_t stages) {
  return (c.microbatches + d - 1) / d + stages - 1;
}

// One choice. dp[downset][stages][accelerators], downsets successor-closed.
class ChoiceSolver {
 public:
  ChoiceSolver(const Choice& choice, const DownsetLattice& lattice, const StageLoads& loads)
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
        const Load load = loads_.Of(lattice_.Difference(inner, outer));
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
    Load stage;
  };

  // What a stage between two downsets takes at least, and keeps, is the difference of these; sums
  // are rounded, so that they rule nothing out that is closer to a limit than that.
  void SumUp() {
    std::vector<double> work, bytes;
    for (const PhazeLayer& layer : c_.model.layers) {
      work.push_back((layer.forward + layer.backward).seconds());
      bytes.push_back(KeptOf(p_, layer).count());
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

  void Extend(size_t inner, size_t outer, const Load& load, PhazePlan& best) {
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
    return entry.load_s * Factor(c_, most, s);
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
          entry.load_s * Factor(c_, d, s) + SyncTime(p_, entry.stage.parameter_bytes, d);
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
  const Choice& c_;
  const DownsetLattice& lattice_;
  const StageLoads& loads_;
  std::vector<std::vector<Entry>> table_;
  std::vector<double> work_, bytes_;  // by downset
  double rounding_s_ = 0, most_bytes_ = 0;
};

absl::Status Check(const PhazeProblem& p) {
  if (p.layers < 1 || p.options.empty() || p.activations.empty() || !p.layers_of) {
    return InvalidInput("phaze: the model has no layers");
  }
  if (p.accelerators < 1 || p.accelerators > kMaxAccelerators || p.samples < 1 ||
      !(p.bandwidth > Bandwidth())) {
    return InvalidInput("phaze: accelerators, samples and bandwidth must be positive");
  }
  for (const PhazeOption& option : p.options) {
    if (option.width < 1 || option.micro_batch < 1) {
      return InvalidInput("phaze: width {} and micro-batch {} must be positive", option.width,
                          option.micro_batch);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<OpGraph> GraphOf(const PhazeProblem& p, const PhazeOption& option,
                                const PhazeLayers& model) {
  if (model.layers.size() != static_cast<size_t>(p.layers)) {
    return InvalidInput("phaze: width {} describes {} of {} layers", option.width,
                        model.layers.size(), p.layers);
  }
  std::vector<std::pair<int32_t, int32_t>> edges;
  for (const PhazeEdge& e : model.edges) edges.emplace_back(e.from, e.to);
  return OpGraph::Create(p.layers, edges);
}

absl::Status Improve(const PhazeProblem& problem, const PhazeOption& option, PhazePlan& best) {
  FORETRACE_ASSIGN_OR_RETURN(const PhazeLayers model, problem.layers_of(option));
  FORETRACE_ASSIGN_OR_RETURN(const OpGraph graph, GraphOf(problem, option, model));
  FORETRACE_ASSIGN_OR_RETURN(const DownsetLattice lattice,
                             DownsetLattice::Enumerate(graph.Reversed(), problem.max_downsets));
  for (const PhazeActivations activations : problem.activations) {
    if (option.bound >= best.batch) break;
    const Choice choice{problem, model, option, activations == PhazeActivations::kRecompute,
                        problem.MicroBatches(option)};
    const StageLoads loads(choice, graph);
    ChoiceSolver(choice, lattice, loads).Improve(best);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PhazePlan> PlacePhaze(const PhazeProblem& problem) {
  FORETRACE_RETURN_IF_ERROR(Check(problem));
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
        problem.accelerators, problem.memory.count() / (1 << 30));
  }
  return best;
}

namespace {

absl::StatusOr<PhazePlan> FixedPlacement(const PhazeProblem& problem, const PhazeOption& option,
                                         int32_t stages, int32_t data_parallel) {
  FORETRACE_ASSIGN_OR_RETURN(const PhazeLayers model, problem.layers_of(option));
  FORETRACE_ASSIGN_OR_RETURN(const OpGraph graph, GraphOf(problem, option, model));
  const Choice choice{problem, model, option, false, problem.MicroBatches(option)};
  const StageLoads loads(choice, graph);
  PhazePlan plan;
  plan.width = option.width;
  plan.micro_batch = option.micro_batch;
  plan.data_parallel = data_parallel;
  const int32_t each = problem.layers / stages;
  double slowest = 0;
  double first_bytes = 0;
  for (int32_t i = 0; i < stages; ++i) {
    const auto begin = graph.topological_order().begin() + i * each;
    const auto end = i + 1 == stages ? graph.topological_order().end() : begin + each;
    PhazeStage stage;
    stage.layers.assign(begin, end);
    const Load load = loads.Of(stage.layers);
    stage.accelerators = load.accelerators;
    stage.load = RealSeconds(load.At(stages - i));
    stage.memory = load.MemoryAt(stages - i);
    if (i == 0) first_bytes = load.parameter_bytes;
    slowest = std::max(slowest, stage.load.seconds());
    plan.stages.push_back(std::move(stage));
  }
  plan.batch = RealSeconds(slowest * Factor(choice, data_parallel, stages) +
                           SyncTime(problem, first_bytes, data_parallel));
  return plan;
}

}  // namespace

absl::StatusOr<PhazePlan> EvaluateFixedPlacement(const PhazeProblem& problem, int32_t stages,
                                                 int32_t width, int32_t data_parallel) {
  FORETRACE_RETURN_IF_ERROR(Check(problem));
  if (stages < 1 || stages > problem.layers || data_parallel < 1) {
    return InvalidInput("phaze: {} stages of {} layers are not possible", stages, problem.layers);
  }
  PhazePlan best;
  best.batch = RealSeconds::Infinite();
  for (const PhazeOption& option : problem.options) {
    if (option.width != width) continue;
    FORETRACE_ASSIGN_OR_RETURN(PhazePlan plan,
                               FixedPlacement(problem, option, stages, data_parallel));
    if (plan.batch < best.batch) best = std::move(plan);
  }
  if (best.stages.empty()) {
    return InvalidInput("phaze: width {} is not among those given", width);
  }
  return best;
}

}  // namespace foretrace
