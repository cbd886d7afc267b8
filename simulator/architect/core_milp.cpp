#include "simulator/architect/core_milp.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "simulator/architect/core_windows.h"
#include "simulator/base/status_macros.h"
#include "simulator/optimise/milp.h"

namespace foretrace {
namespace {

constexpr double kHorizon = 1000;   // the makespan of the start, in the program's unit of time
constexpr double kTouching = 1e-6;  // times that are one
constexpr size_t kWindows = 8;      // of each kind of core

// A node of the program solves a linear program of about the square of the operators, which takes
// as long as some states of the search, or hundreds.
int64_t ProgramNodes(const ScheduleLimits& limits, size_t ops) {
  constexpr double kStatesPerNode = 10, kOps = 20;
  const double larger = std::max(1.0, static_cast<double>(ops) / kOps);
  return std::llround(static_cast<double>(limits.max_nodes) / (kStatesPerNode * larger * larger));
}

// Pairs that follow one another, of `ops` of which no more than `cores` overlap: at least those of
// chains of equal lengths.
int64_t OrderedPairs(int64_t ops, int64_t cores) {
  const int64_t length = ops / cores, longer = ops % cores;
  return (cores - longer) * (length * (length - 1) / 2) + longer * (length * (length + 1) / 2);
}

class CoreProgram {
 public:
  CoreProgram(const CoreGraph& graph, const std::vector<int32_t>& order, const CoreCounts& cores,
              CoreSchedule start)
      : g_(graph),
        n_(graph.ops.size()),
        order_(order),
        reaches_(Reachable(graph.edges, order)),
        cores_(cores),
        best_(std::move(start)),
        scale_(kHorizon / static_cast<double>(best_.makespan.ps())),
        proven_(static_cast<double>(best_.bound.ps()) * scale_),
        before_(n_, std::vector<int>(n_, -1)) {
    AddColumns();
    AddTimes();
    AddLoads();
    for (const CoreWindow& window : CoreWindows(g_, order_, reaches_, cores_, kWindows)) {
      AddWindow(window);
    }
  }

  absl::StatusOr<CoreSchedule> Solve(const ScheduleLimits& limits) {
    for (int64_t left = ProgramNodes(limits, n_); left > 0 && !best_.optimal();) {
      program_.max_nodes = static_cast<int>(std::min<int64_t>(left, 1 << 30));
      program_.rows[kBoundRow].lower = proven_ * (1 - 1e-9);
      program_.start = Values(best_);
      FORETRACE_ASSIGN_OR_RETURN(const MilpSolution solution, SolveMilp(program_));
      best_.nodes += solution.nodes;
      left -= std::max<int64_t>(solution.nodes, 1);
      proven_ = std::max(proven_, solution.bound);
      Take(Decode(solution.values));
      if (Separate(solution.values)) continue;
      if (!core_.empty() || solution.status != MilpStatus::kOptimal) break;
      AddCores();  // operators that need a pair of cores found none
    }
    return best_;
  }

 private:
  static constexpr size_t kBoundRow = 0;

  static size_t Index(int i) { return static_cast<size_t>(i); }
  double Scaled(SimTime t) const { return static_cast<double>(t.ps()) * scale_; }
  double One(size_t i) const { return Scaled(g_.ops[i].one); }
  double All(size_t i) const { return Scaled(g_.ops[i].all); }
  static constexpr int Length() { return 0; }
  int Start(size_t i) const { return 1 + static_cast<int>(i); }
  int OnAll(size_t i) const { return 1 + static_cast<int>(n_ + i); }
  bool Alone(const std::vector<double>& values, size_t i) const {
    return values[Index(OnAll(i))] > 0.5;
  }
  // Takes time of the count, so that an operator on all cores cannot begin in its midst.
  bool Lasts(const std::vector<double>& values, size_t i) const {
    return !Alone(values, i) && One(i) > kTouching;
  }
  bool Incomparable(size_t i, size_t j) const {
    return i != j && !reaches_[i][j] && !reaches_[j][i];
  }
  int32_t Cores(CoreClass core) const {
    return core == CoreClass::kTensor   ? cores_.tensor
           : core == CoreClass::kVector ? cores_.vector
                                        : std::min(cores_.tensor, cores_.vector);
  }
  // More than there are operators change nothing.
  int CoresOf(size_t i) const { return std::min(Cores(g_.ops[i].core), static_cast<int32_t>(n_)); }

  int AddBinary() {
    program_.columns.push_back({0, 1, 0, true});
    return static_cast<int>(program_.columns.size()) - 1;
  }
  void AddRow(std::vector<std::pair<int, double>> terms, double lower, double upper = kNoBound) {
    program_.rows.push_back({std::move(terms), lower, upper});
  }

  // The length of the count, starts, modes; the makespan is no less than what is proven.
  void AddColumns() {
    program_.columns.push_back({0, kHorizon, 1, false});
    for (size_t i = 0; i < n_; ++i) program_.columns.push_back({0, kHorizon, 0, false});
    MilpRow makespan{{{Length(), 1}}, 0, kNoBound};
    for (size_t i = 0; i < n_; ++i) {
      program_.columns.push_back({0, MayRunOnAll(g_.ops[i]) ? 1.0 : 0.0, All(i), true});
      makespan.terms.emplace_back(OnAll(i), All(i));
    }
    program_.rows.push_back(std::move(makespan));
  }

  // 1, 2 and 7. Starts lie within the least that the count takes before and from them on, which
  // keeps the constants of (8) small.
  void AddTimes() {
    const auto least = [&](size_t i) { return MayRunOnAll(g_.ops[i]) ? 0 : One(i); };
    std::vector<double> tail(n_);
    for (size_t k = 0; k < n_; ++k) {
      const int32_t first = order_[k], last = order_[n_ - 1 - k];
      tail[Index(last)] += least(Index(last));
      for (const auto& [from, to] : g_.edges) {
        if (to == last) tail[Index(from)] = std::max(tail[Index(from)], tail[Index(to)]);
        if (from != first) continue;
        double& lower = program_.columns[Index(Start(Index(to)))].lower;
        lower =
            std::max(lower, program_.columns[Index(Start(Index(from)))].lower + least(Index(from)));
      }
    }
    for (size_t i = 0; i < n_; ++i) {
      program_.columns[Index(Start(i))].upper = kHorizon - tail[i];
      AddRow({{Length(), 1}, {Start(i), -1}, {OnAll(i), One(i)}}, One(i));
    }
    for (const auto& [from, to] : g_.edges) {
      const size_t i = Index(from);
      AddRow({{Start(Index(to)), 1}, {Start(i), -1}, {OnAll(i), One(i)}}, One(i));
    }
  }

  void AddLoads() {
    for (const CoreClass core : {CoreClass::kTensor, CoreClass::kVector}) {
      MilpRow load{{{Length(), Cores(core)}}, 0, kNoBound};
      for (size_t i = 0; i < n_; ++i) {
        if (!Uses(g_.ops[i], core)) continue;
        load.terms.emplace_back(OnAll(i), One(i));
        load.lower += One(i);
      }
      program_.rows.push_back(std::move(load));
    }
  }

  // The makespan is at least what is around the window, its load, and whatever runs on all cores
  // meanwhile; operators that may do so before or after it are taken off.
  void AddWindow(const CoreWindow& window) {
    const double cores = Cores(window.core);
    MilpRow row{{{Length(), cores}}, cores * Scaled(window.around), kNoBound};
    for (size_t i = 0; i < n_; ++i) {
      if (window.in[i]) {
        row.terms.emplace_back(OnAll(i), One(i));
        row.lower += One(i);
      } else if (!window.between[i]) {
        row.terms.emplace_back(OnAll(i), cores * All(i));
      }
    }
    program_.rows.push_back(std::move(row));
  }

  // 3, 8 and 9 of a pair.
  void Order(size_t i, size_t j) {
    if (before_[i][j] >= 0) return;
    for (const auto& [a, b] : {std::pair(i, j), std::pair(j, i)}) {
      const int x = before_[a][b] = AddBinary();
      const double latest = std::min(program_.columns[Index(Start(a))].upper + One(a), kHorizon);
      const double most = latest - program_.columns[Index(Start(b))].lower;
      AddRow({{Start(b), 1}, {Start(a), -1}, {OnAll(a), One(a)}, {x, -most}}, One(a) - most);
    }
    AddRow({{before_[i][j], 1}, {before_[j][i], 1}}, -kNoBound, 1);
    for (const size_t a : {i, j}) {
      if (!MayRunOnAll(g_.ops[a])) continue;
      AddRow({{before_[i][j], 1}, {before_[j][i], 1}, {OnAll(a), -1}}, 0);
    }
  }

  // 10 to 16.
  void AddCores() {
    for (size_t i = 0; i < n_; ++i) {
      core_.push_back(static_cast<int>(program_.columns.size()));
      MilpRow placed{{{OnAll(i), 1}}, 1, 1};
      for (int c = 0; c < CoresOf(i); ++c) placed.terms.emplace_back(AddBinary(), 1);
      program_.rows.push_back(std::move(placed));
    }
    for (size_t i = 0; i < n_; ++i) {
      for (size_t j = 0; j < i; ++j) {
        const CoreOp &a = g_.ops[i], &b = g_.ops[j];
        const bool share = a.core == b.core || Uses(a, b.core) || Uses(b, a.core);
        if (!share || !Incomparable(i, j)) continue;
        Order(i, j);
        for (int c = 0; c < std::min(CoresOf(i), CoresOf(j)); ++c) {
          AddRow({{before_[i][j], 1}, {before_[j][i], 1}, {core_[i] + c, -1}, {core_[j] + c, -1}},
                 -1);
        }
      }
    }
  }

  // What stands for a schedule; none, where it has a core that the program has not.
  std::vector<double> Values(const CoreSchedule& s) const {
    std::vector<double> values(program_.columns.size(), 0);
    const auto time = [&](SimTime t) {
      SimTime alone;
      for (size_t k = 0; k < n_; ++k) {
        if (s.ops[k].on_all && s.ops[k].end <= t) alone += g_.ops[k].all;
      }
      return Scaled(t - alone);
    };
    values[Index(Length())] = time(s.makespan);
    for (size_t i = 0; i < n_; ++i) {
      const ScheduledOp& at = s.ops[i];
      values[Index(Start(i))] = time(at.start);
      if (at.on_all) values[Index(OnAll(i))] = 1;
      if (!core_.empty() && !at.on_all) {
        if (at.core >= CoresOf(i)) return {};
        values[Index(core_[i] + at.core)] = 1;
      }
      for (size_t j = 0; j < n_; ++j) {
        if (before_[i][j] < 0 || at.end > s.ops[j].start) continue;
        // Of two that take no time and meet, one is before.
        if (values[Index(before_[j][i])] < 0.5) values[Index(before_[i][j])] = 1;
      }
    }
    return values;
  }

  // Orders what the solution runs at once although it may not; false: there is nothing.
  bool Separate(const std::vector<double>& values) {
    const size_t rows = program_.rows.size();
    for (size_t i = 0; i < n_; ++i) {
      if (!Alone(values, i)) continue;
      const double at = values[Index(Start(i))];
      for (size_t j = 0; j < n_; ++j) {
        if (!Incomparable(i, j) || !Lasts(values, j)) continue;
        const double start = values[Index(Start(j))];
        if (start < at - kTouching && start + One(j) > at + kTouching) Order(i, j);
      }
    }
    for (const CoreClass core : {CoreClass::kTensor, CoreClass::kVector}) {
      std::vector<std::vector<size_t>> crowds;
      for (size_t i = 0; i < n_; ++i) {
        if (!Lasts(values, i) || !Uses(g_.ops[i], core)) continue;
        std::vector<size_t> running = RunningAt(values, core, values[Index(Start(i))]);
        if (static_cast<int32_t>(running.size()) <= Cores(core)) continue;
        if (std::find(crowds.begin(), crowds.end(), running) == crowds.end()) {
          crowds.push_back(std::move(running));
        }
      }
      for (const std::vector<size_t>& crowd : crowds) Thin(crowd, Cores(core));
    }
    return program_.rows.size() > rows;
  }

  std::vector<size_t> RunningAt(const std::vector<double>& values, CoreClass core,
                                double at) const {
    std::vector<size_t> running;
    for (size_t j = 0; j < n_; ++j) {
      if (!Lasts(values, j) || !Uses(g_.ops[j], core)) continue;
      const double start = values[Index(Start(j))];
      if (start <= at + kTouching && start + One(j) > at + 2 * kTouching) running.push_back(j);
    }
    return running;
  }

  // Operators on all cores have an order with each of the others, or stand aside.
  void Thin(const std::vector<size_t>& crowd, int32_t cores) {
    const auto count = static_cast<int64_t>(crowd.size());
    const int64_t pairs = OrderedPairs(count, cores);
    const auto fewer = static_cast<double>(pairs - OrderedPairs(count - 1, cores));
    MilpRow row{{}, static_cast<double>(pairs), kNoBound};
    for (size_t a = 0; a < crowd.size(); ++a) {
      for (size_t b = 0; b < a; ++b) {
        const size_t i = crowd[a], j = crowd[b];
        Order(i, j);
        row.terms.emplace_back(before_[i][j], 1);
        row.terms.emplace_back(before_[j][i], 1);
      }
      row.terms.emplace_back(OnAll(crowd[a]), fewer);
    }
    program_.rows.push_back(std::move(row));
  }

  // Operators by their times, each as early as its inputs and cores allow; at one time those on all
  // cores first.
  CoreSchedule Decode(const std::vector<double>& values) const {
    std::vector<int32_t> sequence, waiting(n_), on_core;
    for (const auto& [from, to] : g_.edges) ++waiting[Index(to)];
    const auto key = [&](int32_t id) {
      const size_t i = Index(id);
      return std::tuple(std::round(values[Index(Start(i))] / kTouching), Lasts(values, i));
    };
    std::vector<bool> on_all(n_), taken(n_);
    while (sequence.size() < n_) {
      int32_t next = -1;
      for (const int32_t id : order_) {
        if (taken[Index(id)] || waiting[Index(id)] > 0) continue;
        if (next < 0 || key(id) < key(next)) next = id;
      }
      taken[Index(next)] = true;
      sequence.push_back(next);
      for (const auto& [from, to] : g_.edges) waiting[Index(to)] -= from == next ? 1 : 0;
    }
    for (size_t i = 0; i < n_; ++i) {
      on_all[i] = Alone(values, i);
      if (core_.empty()) continue;
      const auto first = values.begin() + core_[i];
      on_core.push_back(static_cast<int32_t>(std::max_element(first, first + CoresOf(i)) - first));
    }
    return PlaceInOrder(g_, sequence, cores_, on_all, on_core);
  }

  void Take(CoreSchedule found) {
    if (found.makespan < best_.makespan) {
      best_.makespan = found.makespan;
      best_.ops = std::move(found.ops);
    }
    const double ps = proven_ / scale_;
    const bool met = ps >= static_cast<double>(best_.makespan.ps()) * (1 - kMilpTolerance);
    best_.bound =
        met ? best_.makespan : std::max(best_.bound, SimTime::FromPs(static_cast<int64_t>(ps)));
  }

  const CoreGraph& g_;
  const size_t n_;
  const std::vector<int32_t>& order_;
  const std::vector<std::vector<bool>> reaches_;
  const CoreCounts cores_;
  CoreSchedule best_;
  const double scale_;
  double proven_;
  MilpProblem program_;
  std::vector<std::vector<int>> before_;  // column, or -1: not ordered yet
  std::vector<int> core_;  // first of an operator's columns for cores; empty: not assigned yet
};

}  // namespace

absl::StatusOr<CoreSchedule> ImproveByMilp(const CoreGraph& graph,
                                           const std::vector<int32_t>& order,
                                           const CoreCounts& cores, CoreSchedule start,
                                           const ScheduleLimits& limits) {
  if (start.optimal()) return start;
  return CoreProgram(graph, order, cores, std::move(start)).Solve(limits);
}

}  // namespace foretrace
