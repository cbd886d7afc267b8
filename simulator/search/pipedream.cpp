#include "simulator/search/pipedream.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"

namespace foretrace {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Hierarchies need a cost for every pair of downsets.
constexpr size_t kMaxPairStates = 3000;
constexpr int32_t kMaxMachines = 4096;

struct Choice {
  uint32_t prefix = 0;    // downset before the last stage
  uint16_t replicas = 0;  // of the last stage
  uint16_t before = 0;    // machines of the stages before; 0: this is the first stage
};

class Solver {
 public:
  Solver(const PipeDreamProblem& problem, const PipeDreamOptions& options, DownsetLattice lattice)
      : problem_(problem), options_(options), lattice_(std::move(lattice)) {
    const size_t n = problem.layers.size();
    std::vector<double> compute(n), weight(n);
    for (size_t v = 0; v < n; ++v) {
      compute[v] = problem.layers[v].compute.seconds();
      weight[v] = problem.layers[v].parameter_bytes.count();
    }
    compute_ = lattice_.Sums(compute);
    weight_ = lattice_.Sums(weight);
    output_.assign(lattice_.size(), 0.0);
    for (size_t s = 0; s < lattice_.size(); ++s) {
      for (int32_t v = 0; v < problem.graph.size(); ++v) {
        if (!lattice_.Contains(s, v)) continue;
        const auto next = problem.graph.successors(v);
        const bool leaves = next.empty() || std::any_of(next.begin(), next.end(), [&](int32_t w) {
                              return !lattice_.Contains(s, w);
                            });
        if (leaves) output_[s] += problem.layers[static_cast<size_t>(v)].activation_bytes.count();
      }
    }
  }

  PipeDreamPlan Run() {
    // Inner levels turn into the cost of one machine of the level above.
    for (size_t l = 0; l + 1 < options_.levels.size(); ++l) {
      std::vector<double> costs(states() * states(), kInfinity);
      for (size_t from = 0; from < states(); ++from) {
        SolveFrom(from, l, kInfinity);
        for (size_t to = from + 1; to < states(); ++to) {
          for (int32_t m = 1; m <= machines(l); ++m) {
            costs[from * states() + to] = std::min(costs[from * states() + to], best(to, m));
          }
        }
      }
      pair_cost_ = std::move(costs);
    }
    const size_t last = options_.levels.size() - 1;
    const double bound = ChainBound(last);
    SolveFrom(0, last, bound);
    return Extract(last);
  }

 private:
  size_t states() const { return lattice_.size(); }
  int32_t machines(size_t level) const { return options_.levels[level].machines; }
  double bandwidth(size_t level) const {
    return options_.levels[level].bandwidth.bytes_per_second();
  }
  double& best(size_t state, int32_t m) { return best_[state * width_ + static_cast<size_t>(m)]; }

  double Compute(size_t from, size_t to) const {
    return pair_cost_.empty() ? compute_[to] - compute_[from] : pair_cost_[from * states() + to];
  }
  double Replicated(double compute, double weight, int32_t m, size_t level, double within) const {
    return (compute + 4.0 * (m - 1) * weight / (bandwidth(level) * m) / within) / m;
  }
  // The published program divides by the size of the machine below only where the stage is alone.
  double FirstStage(size_t from, size_t to, int32_t m, size_t level) const {
    const double within = level == 0 ? 1 : machines(level - 1);
    return Replicated(Compute(from, to), weight_[to] - weight_[from], m, level, within);
  }
  double LaterStage(size_t from, size_t to, int32_t m, size_t level) const {
    double time = Replicated(Compute(from, to), weight_[to] - weight_[from], m, level, 1);
    if (options_.activation_compression_ratio) {
      const double per_byte = 2.0 / (bandwidth(level) * m) / *options_.activation_compression_ratio;
      time = std::max(time, output_[from] * per_byte);
      if (to != lattice_.full()) time = std::max(time, output_[to] * per_byte);
    }
    return time;
  }

  int32_t MaxReplicas(int32_t available) const {
    return options_.straight_pipeline ? std::min(available, 1) : available;
  }

  // Fills best_ and choice_ for stages from downset `from`; entries above `bound` may stay
  // infinite.
  void SolveFrom(size_t from, size_t level, double bound) {
    const int32_t total = machines(level);
    width_ = static_cast<size_t>(total) + 1;
    best_.assign(states() * width_, kInfinity);
    choice_.assign(states() * width_, {});
    std::vector<int32_t> needs(states(), total + 1);  // fewest machines within the bound
    for (size_t to = from + 1; to < states(); ++to) {
      if (!lattice_.IsSubset(from, to)) continue;
      for (int32_t m = 1; m <= MaxReplicas(total); ++m) {
        best(to, m) = FirstStage(from, to, m, level);
        choice_[to * width_ + static_cast<size_t>(m)] = {static_cast<uint32_t>(from),
                                                         static_cast<uint16_t>(m), 0};
      }
      const int32_t rest = RestMachines(to, bound);
      for (size_t k = from + 1; k < to; ++k) {
        const int32_t room = total - rest - needs[k];
        if (room < 1) continue;
        if (pair_cost_.empty() && compute_[to] - compute_[k] > bound * room) continue;
        if (!lattice_.IsSubset(k, to)) continue;
        Extend(k, to, level, needs[k], MaxReplicas(room), bound);
      }
      for (int32_t m = total; m >= 1; --m) {
        if (best(to, m) <= bound) needs[to] = m;
      }
    }
  }

  // A lower bound on the machines that the rest of the graph needs.
  int32_t RestMachines(size_t to, double bound) const {
    if (!pair_cost_.empty() || !(bound < kInfinity) || bound <= 0) return 0;
    const double rest = (compute_[lattice_.full()] - compute_[to]) / bound;
    return static_cast<int32_t>(std::ceil(rest * (1 - 1e-12)));
  }

  void Extend(size_t k, size_t to, size_t level, int32_t fewest, int32_t room, double bound) {
    const int32_t total = machines(level);
    for (int32_t m = 1; m <= room; ++m) {
      const double stage = LaterStage(k, to, m, level);
      if (stage > bound) continue;
      for (int32_t before = fewest; before + m <= total; ++before) {
        const double time = std::max(best(k, before), stage);
        double& entry = best(to, before + m);
        if (time < entry) {
          entry = time;
          choice_[to * width_ + static_cast<size_t>(before + m)] = {
              static_cast<uint32_t>(k), static_cast<uint16_t>(m), static_cast<uint16_t>(before)};
        }
      }
    }
  }

  // The optimum over one linear order of the graph: an upper bound for all.
  double ChainBound(size_t level) {
    if (!pair_cost_.empty()) return kInfinity;
    std::vector<size_t> chain = {0};
    for (size_t s = 1; s < states(); ++s) {
      if (lattice_.IsSubset(chain.back(), s) && lattice_.Difference(chain.back(), s).size() == 1) {
        chain.push_back(s);
      }
    }
    const int32_t total = machines(level);
    std::vector<std::vector<double>> time(
        chain.size(), std::vector<double>(static_cast<size_t>(total) + 1, kInfinity));
    for (size_t j = 1; j < chain.size(); ++j) {
      for (int32_t m = 1; m <= MaxReplicas(total); ++m) {
        time[j][m] = FirstStage(0, chain[j], m, level);
      }
      for (size_t k = 1; k < j; ++k) {
        for (int32_t m = 1; m <= MaxReplicas(total - 1); ++m) {
          const double stage = LaterStage(chain[k], chain[j], m, level);
          for (int32_t before = 1; before + m <= total; ++before) {
            time[j][before + m] = std::min(time[j][before + m], std::max(time[k][before], stage));
          }
        }
      }
    }
    return *std::min_element(time.back().begin(), time.back().end());
  }

  PipeDreamPlan Extract(size_t level) {
    PipeDreamPlan plan;
    size_t state = lattice_.full();
    int32_t m = 1;
    for (int32_t i = 2; i <= machines(level); ++i) {
      if (best(state, i) < best(state, m)) m = i;
    }
    plan.bottleneck = RealSeconds(best(state, m));
    while (m > 0) {
      const Choice& c = choice_[state * width_ + static_cast<size_t>(m)];
      const bool first = c.before == 0;
      PipeDreamStage stage;
      stage.nodes = lattice_.Difference(c.prefix, state);
      stage.compute = RealSeconds(compute_[state] - compute_[c.prefix]);
      stage.replicas = c.replicas;
      stage.time = RealSeconds(first ? FirstStage(c.prefix, state, c.replicas, level)
                                     : LaterStage(c.prefix, state, c.replicas, level));
      plan.stages.push_back(std::move(stage));
      state = c.prefix;
      m = c.before;
    }
    std::reverse(plan.stages.begin(), plan.stages.end());
    return plan;
  }

  const PipeDreamProblem& problem_;
  const PipeDreamOptions& options_;
  DownsetLattice lattice_;
  std::vector<double> compute_, weight_, output_;  // by downset; seconds and bytes
  std::vector<double> pair_cost_;                  // of the level below; empty at the innermost
  size_t width_ = 0;
  std::vector<double> best_;
  std::vector<Choice> choice_;
};

}  // namespace

absl::StatusOr<PipeDreamPlan> PartitionPipeDream(const PipeDreamProblem& problem,
                                                 const PipeDreamOptions& options) {
  if (options.levels.empty()) return InvalidInput("pipedream: no machines given");
  if (problem.layers.empty()) return InvalidInput("pipedream: the model has no layers");
  if (problem.layers.size() != static_cast<size_t>(problem.graph.size())) {
    return InvalidInput("pipedream: {} layers for a graph of {}", problem.layers.size(),
                        problem.graph.size());
  }
  for (const auto& level : options.levels) {
    if (level.machines < 1 || level.machines > kMaxMachines || !(level.bandwidth > Bandwidth())) {
      return InvalidInput("pipedream: a level needs 1 to {} machines and a positive bandwidth",
                          kMaxMachines);
    }
  }
  FORETRACE_ASSIGN_OR_RETURN(DownsetLattice lattice,
                             DownsetLattice::Enumerate(problem.graph, options.max_downsets));
  if (options.levels.size() > 1 && lattice.size() > kMaxPairStates) {
    return Infeasible("pipedream: {} downsets are too many for several levels; the limit is {}",
                      lattice.size(), kMaxPairStates);
  }
  return Solver(problem, options, std::move(lattice)).Run();
}

}  // namespace foretrace
