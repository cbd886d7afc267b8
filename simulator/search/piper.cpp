#include "simulator/search/piper.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "simulator/base/error.h"
#include "simulator/base/gib.h"
#include "simulator/base/status_macros.h"
#include "simulator/search/piper_stage.h"

namespace foretrace {
namespace {

using internal::PiperStageChoices;
using internal::PiperTables;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int32_t kMaxDevices = 16384;

int32_t CeilDiv(int32_t a, int32_t b) { return (a + b - 1) / b; }

// Piper's table dp[downset][devices][sum of degrees] answers "what is the least bottleneck". This
// solver asks the converse, "does a plan with bottleneck at most T exist", for which each downset
// needs only the fewest devices by sum of degrees, and searches T. Downsets are successor-closed:
// stages are added from the last to the first.
class Solver {
 public:
  Solver(const PiperProblem& problem, const DownsetLattice& lattice)
      : problem_(problem),
        lattice_(lattice),
        tables_(problem),
        degree_limit_(std::min(problem.batch, problem.max_devices)) {
    std::map<int32_t, std::vector<double>> fastest;
    std::vector<double> work(problem.nodes.size(), kInfinity);
    for (size_t v = 0; v < tables_.nodes.size(); ++v) {
      for (const auto& [t, options] : tables_.nodes[v]) {
        if (t > problem.max_devices) continue;
        // A node that cannot run at this degree is refused when the stage is made.
        double& least = fastest.try_emplace(t, work.size(), 0.0).first->second[v];
        least = kInfinity;
        for (const auto& o : options) least = std::min(least, o.time_s);
        work[v] = std::min(work[v], t * least);
      }
    }
    for (const auto& [t, times] : fastest) {
      tensor_.push_back(t);
      time_at_.push_back(lattice.Sums(times));
    }
    for (int32_t d = 1; d <= (problem.data_parallel ? degree_limit_ : 1); ++d) {
      if (problem.batch % d == 0) data_.push_back(d);
    }
    work_ = lattice.Sums(work);
    by_work_.resize(lattice.size());
    for (size_t i = 0; i < by_work_.size(); ++i) by_work_[i] = static_cast<uint32_t>(i);
    std::sort(by_work_.begin(), by_work_.end(), [&](uint32_t a, uint32_t b) {
      return work_[a] != work_[b] ? work_[a] < work_[b] : a < b;
    });
  }

  PiperPlan Run() {
    PiperPlan best;
    best.time_per_sample = RealSeconds::Infinite();
    if (!std::isfinite(work_.back())) return best;
    double low = work_.back() / problem_.max_devices * (1 - 1e-12);
    // Loose bounds make every stage a candidate, so they are tried last.
    for (double bound = 1.1 * low; best.stages.empty(); bound *= 1.5) {
      const bool all = !(bound > 0) || bound > 1e3 * work_.back();
      if (Feasible(all ? kInfinity : bound)) {
        best = Extract();
      } else if (all) {
        return best;
      } else {
        low = bound;
      }
    }
    // Each success replaces the bound by a plan's own bottleneck, so that the end is exact up to
    // the last bits.
    double high = best.time_per_sample.seconds();
    while (high - low > 1e-13 * high) {
      const double middle = low + (high - low) / 2;
      if (middle >= high || middle <= low) break;
      if (Feasible(middle)) {
        PiperPlan plan = Extract();
        if (plan.time_per_sample >= best.time_per_sample) break;
        best = std::move(plan);
        high = best.time_per_sample.seconds();
      } else {
        low = middle;
      }
    }
    return best;
  }

 private:
  struct StageEntry {
    bool made = false;
    bool possible = false;
    double fastest_s = 0;
    int32_t fastest_up_to = 0;     // microbatches in flight that fit with the fastest options
    int32_t fits_up_to = 0;        // that fit at all
    PiperStageChoices choices;     // kept only where some in-flight count needs slower options
    std::vector<double> slower_s;  // for fastest_up_to + 1, ...; negative: not computed yet
    std::vector<internal::PiperBounds> bounds;  // likewise
  };
  struct Step {
    uint32_t before = 0;  // downset without this stage
    int32_t degree_sum = 0;
    int32_t data = 0, tensor = 0, in_flight = 0;
  };

  StageEntry& EntryOf(size_t inner, size_t outer, size_t t, size_t d) {
    auto& list = entries_[inner * lattice_.size() + outer];
    if (list.empty()) list.resize(tensor_.size() * data_.size());
    StageEntry& entry = list[t * data_.size() + d];
    if (!entry.made) Make(lattice_.Difference(inner, outer), tensor_[t], data_[d], entry);
    return entry;
  }

  void Make(const std::vector<int32_t>& nodes, int32_t tensor, int32_t data, StageEntry& entry) {
    entry.made = true;
    entry.choices = internal::StageChoices(problem_, tables_, nodes, tensor, data);
    if (entry.choices.empty()) return;
    entry.possible = true;
    double a = 0, b = 0;
    for (const auto& list : entry.choices) {
      const auto fastest =
          std::min_element(list.begin(), list.end(),
                           [](const auto& x, const auto& y) { return x.time_s < y.time_s; });
      entry.fastest_s += fastest->time_s;
      a += fastest->memory_per_inflight;
      b += fastest->memory_fixed;
    }
    const int32_t most = CeilDiv(degree_limit_, data);
    const auto fits = [&](int32_t y) { return a * y + b <= problem_.memory.count(); };
    while (entry.fastest_up_to < most && fits(entry.fastest_up_to + 1)) ++entry.fastest_up_to;
    entry.fits_up_to = entry.fastest_up_to;
    while (entry.fits_up_to < most &&
           LeastMemory(entry.choices, entry.fits_up_to + 1) <= problem_.memory.count()) {
      ++entry.fits_up_to;
    }
    entry.slower_s.assign(static_cast<size_t>(entry.fits_up_to - entry.fastest_up_to), -1);
    entry.bounds.assign(entry.slower_s.size(), {0, -1});
    if (entry.slower_s.empty()) PiperStageChoices().swap(entry.choices);
  }

  static double LeastMemory(const PiperStageChoices& choices, int32_t in_flight) {
    double sum = 0;
    for (const auto& list : choices) {
      double least = kInfinity;
      for (const auto& c : list) {
        least = std::min(least, c.memory_per_inflight * in_flight + c.memory_fixed);
      }
      sum += least;
    }
    return sum;
  }

  bool Fits(StageEntry& entry, int32_t in_flight, double bound) {
    if (in_flight <= entry.fastest_up_to) return entry.fastest_s <= bound;
    const auto i = static_cast<size_t>(in_flight - entry.fastest_up_to - 1);
    if (entry.slower_s[i] >= 0) return entry.slower_s[i] <= bound;
    internal::PiperBounds& b = entry.bounds[i];
    if (b.upper_s < 0) {
      b = internal::BoundSelection(entry.choices, problem_.memory.count(), in_flight);
    }
    // Rounding must not decide: within 1e-12 of a bound the selection itself is asked.
    if (b.lower_s > bound * (1 + 1e-12)) return false;
    if (b.upper_s <= bound * (1 - 1e-12)) return true;
    const auto s = internal::SelectOptions(entry.choices, problem_.memory.count(), in_flight);
    entry.slower_s[i] = s.feasible ? s.time_s : kInfinity;
    return entry.slower_s[i] <= bound;
  }

  // The largest number in flight within the bound; 0: none. What holds for it holds for fewer.
  int32_t MostInFlight(StageEntry& entry, double bound) {
    if (!entry.possible || entry.fastest_s > bound) return 0;
    int32_t low = entry.fastest_up_to, high = entry.fits_up_to;
    while (low < high) {
      const int32_t middle = (low + high + 1) / 2;
      if (Fits(entry, middle, bound)) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }

  bool Feasible(double bound) {
    const auto width = static_cast<size_t>(degree_limit_) + 1;
    devices_.assign(lattice_.size() * width, problem_.max_devices + 1);
    steps_.assign(lattice_.size() * width, {});
    devices_[0] = 0;
    const double total = work_.back();
    for (size_t inner = 0; inner + 1 < lattice_.size(); ++inner) {
      const auto front = Front(inner);
      if (front.empty()) continue;
      const int32_t fewest = front.back().second;
      if (fewest >= problem_.max_devices) continue;
      const double slack = 1 + 1e-9;
      const double longest = work_[inner] + bound * slack * (problem_.max_devices - fewest);
      // At least one device goes to the next stage.
      const double shortest =
          std::isfinite(bound)
              ? total - bound * slack * (problem_.max_devices - fewest - 1) - 1e-9 * total
              : 0;
      auto it = std::lower_bound(by_work_.begin(), by_work_.end(), std::max(shortest, work_[inner]),
                                 [&](uint32_t id, double value) { return work_[id] < value; });
      for (; it != by_work_.end() && work_[*it] <= longest; ++it) {
        if (*it > inner && lattice_.IsSubset(inner, *it)) Extend(inner, *it, front, bound);
      }
    }
    const auto begin = devices_.begin() + static_cast<ptrdiff_t>(lattice_.full() * width);
    return *std::min_element(begin, begin + static_cast<ptrdiff_t>(width)) <= problem_.max_devices;
  }

  // Pairs (sum of degrees, fewest devices), the second strictly falling.
  std::vector<std::pair<int32_t, int32_t>> Front(size_t set) const {
    std::vector<std::pair<int32_t, int32_t>> front;
    const size_t width = static_cast<size_t>(degree_limit_) + 1;
    for (int32_t s = 0; s <= degree_limit_; ++s) {
      const int32_t k = devices_[set * width + static_cast<size_t>(s)];
      if (k <= problem_.max_devices && (front.empty() || k < front.back().second)) {
        front.emplace_back(s, k);
      }
    }
    return front;
  }

  void Extend(size_t inner, size_t outer, const std::vector<std::pair<int32_t, int32_t>>& front,
              double bound) {
    const size_t width = static_cast<size_t>(degree_limit_) + 1;
    const int32_t fewest = front.back().second;
    // Devices that the stages still to come need at least.
    const double remaining = (work_.back() - work_[outer]) / bound * (1 - 1e-9);
    const int32_t rest = std::isfinite(bound) && remaining < 1e9
                             ? static_cast<int32_t>(std::ceil(remaining - 1e-9))
                             : 0;
    for (size_t t = 0; t < tensor_.size(); ++t) {
      for (size_t d = 0; d < data_.size(); ++d) {
        const int32_t used = tensor_[t] * data_[d];
        if (fewest + used > problem_.max_devices) break;
        if (fewest + used + rest > problem_.max_devices) break;
        if (work_[outer] - work_[inner] > bound * used * (1 + 1e-9)) continue;
        if (time_at_[t][outer] - time_at_[t][inner] > bound * data_[d] * (1 + 1e-9)) continue;
        const int32_t most = MostInFlight(EntryOf(inner, outer, t, d), bound);
        if (most == 0) continue;
        for (const auto& [sum_before, devices_before] : front) {
          const int32_t sum = sum_before + data_[d];
          const int32_t devices = devices_before + used;
          if (sum > degree_limit_ || CeilDiv(sum, data_[d]) > most) break;
          if (devices > problem_.max_devices) continue;
          int32_t& entry = devices_[outer * width + static_cast<size_t>(sum)];
          if (devices >= entry) continue;
          entry = devices;
          steps_[outer * width + static_cast<size_t>(sum)] = {
              static_cast<uint32_t>(inner), sum_before, data_[d], tensor_[t], most};
        }
      }
    }
  }

  PiperPlan Extract() {
    const size_t width = static_cast<size_t>(degree_limit_) + 1;
    PiperPlan plan;
    size_t set = lattice_.full();
    int32_t sum = 0;
    for (int32_t s = 1; s <= degree_limit_; ++s) {
      if (devices_[set * width + static_cast<size_t>(s)] <
          devices_[set * width + static_cast<size_t>(sum)]) {
        sum = s;
      }
    }
    plan.devices = devices_[set * width + static_cast<size_t>(sum)];
    while (set != 0) {
      const Step& step = steps_[set * width + static_cast<size_t>(sum)];
      PiperStage stage;
      stage.nodes = lattice_.Difference(step.before, set);
      stage.data_parallel = step.data;
      stage.tensor_parallel = step.tensor;
      const auto choices =
          internal::StageChoices(problem_, tables_, stage.nodes, step.tensor, step.data);
      const auto picked = internal::SelectOptions(choices, problem_.memory.count(), step.in_flight);
      for (size_t i = 0; i < stage.nodes.size(); ++i) {
        const auto& c = choices[i][static_cast<size_t>(picked.choice[i])];
        stage.options.push_back(c.option);
        stage.memory += RealBytes(c.memory_per_inflight * CeilDiv(sum, step.data) + c.memory_fixed);
      }
      stage.time = RealSeconds(picked.time_s);
      plan.time_per_sample = std::max(plan.time_per_sample, stage.time);
      plan.stages.push_back(std::move(stage));
      set = step.before;
      sum = step.degree_sum;
    }
    return plan;
  }

  const PiperProblem& problem_;
  const DownsetLattice& lattice_;
  PiperTables tables_;
  int32_t degree_limit_;
  std::vector<int32_t> tensor_, data_;
  std::vector<std::vector<double>> time_at_;  // fastest options at tensor_[t], by downset
  std::vector<double> work_;                  // device-seconds at least, by downset
  std::vector<uint32_t> by_work_;             // downsets in order of work_
  absl::flat_hash_map<size_t, std::vector<StageEntry>> entries_;
  std::vector<int32_t> devices_;  // by downset and sum of degrees
  std::vector<Step> steps_;
};

absl::Status Check(const PiperProblem& p) {
  if (p.nodes.empty()) return InvalidInput("piper: the model has no nodes");
  if (p.max_devices < 1 || p.max_devices > kMaxDevices) {
    return InvalidInput("piper: devices must be between 1 and {}, not {}", kMaxDevices,
                        p.max_devices);
  }
  if (p.batch < 1 || !(p.bandwidth > Bandwidth()) || !(p.memory >= RealBytes())) {
    return InvalidInput("piper: batch, bandwidth and memory must be positive");
  }
  return absl::OkStatus();
}

absl::StatusOr<OpGraph> GraphOf(const PiperProblem& problem) {
  std::vector<std::pair<int32_t, int32_t>> edges;
  for (const PiperEdge& e : problem.edges) edges.emplace_back(e.from, e.to);
  return OpGraph::Create(static_cast<int32_t>(problem.nodes.size()), edges);
}

}  // namespace

absl::StatusOr<PiperPlan> PartitionPiper(const PiperProblem& problem) {
  FORETRACE_RETURN_IF_ERROR(Check(problem));
  FORETRACE_ASSIGN_OR_RETURN(const OpGraph graph, GraphOf(problem));
  FORETRACE_ASSIGN_OR_RETURN(const DownsetLattice lattice,
                             DownsetLattice::Enumerate(graph.Reversed(), problem.max_downsets));
  PiperPlan plan = Solver(problem, lattice).Run();
  if (plan.stages.empty()) {
    return Infeasible(
        "piper: no plan on {} devices fits in {:.2f} GiB a device; more devices, more memory, "
        "recomputation or tensor parallelism would help",
        problem.max_devices, Gib(problem.memory));
  }
  return plan;
}

absl::StatusOr<PiperPlan> EvaluatePiperPlan(const PiperProblem& problem, const PiperPlan& plan) {
  FORETRACE_RETURN_IF_ERROR(Check(problem));
  const PiperTables tables(problem);
  PiperPlan out;
  std::vector<int32_t> stage_of(problem.nodes.size(), -1);
  int32_t degrees = 0;
  // From the last stage to the first, as degrees add up.
  for (size_t i = plan.stages.size(); i-- > 0;) {
    PiperStage stage = plan.stages[i];
    degrees += stage.data_parallel;
    out.devices += stage.data_parallel * stage.tensor_parallel;
    const auto choices = internal::StageChoices(problem, tables, stage.nodes, stage.tensor_parallel,
                                                stage.data_parallel);
    if (choices.size() != stage.nodes.size() || stage.options.size() != stage.nodes.size() ||
        stage.nodes.empty() || problem.batch % stage.data_parallel != 0) {
      return InvalidInput("piper: stage {} has no options at its degrees", i);
    }
    stage.time = RealSeconds();
    stage.memory = RealBytes();
    for (size_t n = 0; n < stage.nodes.size(); ++n) {
      int32_t& owner = stage_of[static_cast<size_t>(stage.nodes[n])];
      if (owner >= 0) return InvalidInput("piper: node {} is in two stages", stage.nodes[n]);
      owner = static_cast<int32_t>(i);
      const auto it = std::find_if(choices[n].begin(), choices[n].end(),
                                   [&](const auto& c) { return c.option == stage.options[n]; });
      if (it == choices[n].end()) return InvalidInput("piper: stage {}: unknown option", i);
      stage.time += RealSeconds(it->time_s);
      stage.memory += RealBytes(it->memory_per_inflight * CeilDiv(degrees, stage.data_parallel) +
                                it->memory_fixed);
    }
    if (stage.memory > problem.memory) {
      return Infeasible("piper: stage {} needs {} bytes of {}", i, stage.memory.count(),
                        problem.memory.count());
    }
    out.time_per_sample = std::max(out.time_per_sample, stage.time);
    out.stages.insert(out.stages.begin(), std::move(stage));
  }
  for (const PiperEdge& e : problem.edges) {
    if (stage_of[static_cast<size_t>(e.from)] > stage_of[static_cast<size_t>(e.to)]) {
      return InvalidInput("piper: edge {} -> {} goes back in the pipeline", e.from, e.to);
    }
  }
  if (std::count(stage_of.begin(), stage_of.end(), -1) > 0 ||
      degrees > std::min(problem.batch, problem.max_devices) || out.devices > problem.max_devices) {
    return InvalidInput("piper: nodes are left out, or more devices are used than there are");
  }
  return out;
}

}  // namespace foretrace
