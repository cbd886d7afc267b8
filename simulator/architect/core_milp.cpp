#include <algorithm>
#include <numeric>

#include "simulator/architect/core_schedule.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/optimise/milp.h"

namespace foretrace {
namespace {

bool OnTensor(const CoreOp& op) { return op.core != CoreClass::kVector; }
bool OnVector(const CoreOp& op) { return op.core != CoreClass::kTensor; }

class CoreProgram {
 public:
  CoreProgram(const CoreGraph& graph, const std::vector<int32_t>& order, const CoreCounts& cores)
      : g_(graph), n_(graph.ops.size()), reaches_(Reachable(graph.edges, order)) {
    const auto count = [&](auto uses, int32_t most) {
      return std::min<int32_t>(
          most, static_cast<int32_t>(std::count_if(g_.ops.begin(), g_.ops.end(), uses)));
    };
    cores_ = {std::max(count(OnTensor, cores.tensor), 1),
              std::max(count(OnVector, cores.vector), 1)};
    SimTime one, all;
    for (const CoreOp& op : g_.ops) {
      one += op.one;
      all += op.all;
    }
    horizon_ = std::max(Scaled(std::min(one, all)), 1e-9);
    AddColumns();
    AddTimes();
    AddOrder();
  }

  // Values that stand for a schedule.
  void Start(const CoreSchedule& s) {
    std::vector<double>& v = program_.start;
    v.assign(program_.columns.size(), 0);
    v[0] = Scaled(s.makespan);
    for (size_t i = 0; i < n_; ++i) {
      v[Index(Time(i))] = Scaled(s.ops[i].start);
      v[Index(OnAll(i))] = s.ops[i].on_all ? 1 : 0;
      if (!s.ops[i].on_all) v[Index(core_[i] + s.ops[i].core)] = 1;
      for (size_t j = 0; j < n_; ++j) {
        if (before_[i][j] >= 0 && s.ops[i].end <= s.ops[j].start) v[Index(before_[i][j])] = 1;
      }
    }
  }

  absl::StatusOr<CoreSchedule> Solve(const ScheduleLimits& limits) {
    program_.max_nodes = static_cast<int>(std::min<int64_t>(limits.max_nodes, 1 << 30));
    while (true) {
      FORETRACE_ASSIGN_OR_RETURN(const MilpSolution solution, SolveMilp(program_));
      if (!solution.found())
        return Infeasible("schedule: the solver found none within its limit; raise it");
      if (!Separate(solution.values)) return Decode(solution.values);
    }
  }

 private:
  static size_t Index(int column) { return static_cast<size_t>(column); }
  static double Scaled(SimTime t) { return t.us(); }
  int Time(size_t i) const { return 1 + static_cast<int>(i); }
  int OnAll(size_t i) const { return 1 + static_cast<int>(n_ + i); }
  double Saving(size_t i) const { return Scaled(g_.ops[i].one) - Scaled(g_.ops[i].all); }
  bool Comparable(size_t i, size_t j) const { return reaches_[i][j] || reaches_[j][i]; }
  int32_t CoresOf(const CoreOp& op) const {
    if (op.core == CoreClass::kTensor) return cores_.tensor;
    if (op.core == CoreClass::kVector) return cores_.vector;
    return std::min(cores_.tensor, cores_.vector);
  }
  bool ShareCores(size_t i, size_t j) const {
    const CoreOp &a = g_.ops[i], &b = g_.ops[j];
    return (OnTensor(a) && OnTensor(b)) || (OnVector(a) && OnVector(b));
  }

  int Binary() {
    program_.columns.push_back({0, 1, 0, true});
    return static_cast<int>(program_.columns.size()) - 1;
  }
  void AddColumns() {
    program_.columns.push_back({0, horizon_, 1, false});
    for (size_t i = 0; i < n_; ++i) program_.columns.push_back({0, horizon_, 0, false});
    for (size_t i = 0; i < n_; ++i) Binary();
    before_.assign(n_, std::vector<int>(n_, -1));
    for (size_t i = 0; i < n_; ++i) {
      core_.push_back(static_cast<int>(program_.columns.size()));
      for (int32_t c = 0; c < CoresOf(g_.ops[i]); ++c) Binary();
      for (size_t j = 0; j < n_; ++j) {
        if (i != j && !Comparable(i, j)) before_[i][j] = Binary();
      }
    }
  }

  // 1, 2, 7: ends (with durations put in), and 10 to 14: one core, or all.
  void AddTimes() {
    for (size_t i = 0; i < n_; ++i) {
      const double one = Scaled(g_.ops[i].one);
      program_.rows.push_back({{{0, 1}, {Time(i), -1}, {OnAll(i), Saving(i)}}, one, kNoBound});
      MilpRow placed{{{OnAll(i), 1}}, 1, 1};
      for (int32_t c = 0; c < CoresOf(g_.ops[i]); ++c) placed.terms.emplace_back(core_[i] + c, 1);
      program_.rows.push_back(std::move(placed));
    }
    for (const auto& [from, to] : g_.edges) {
      const auto i = static_cast<size_t>(from), j = static_cast<size_t>(to);
      program_.rows.push_back(
          {{{Time(j), 1}, {Time(i), -1}, {OnAll(i), Saving(i)}}, Scaled(g_.ops[i].one), kNoBound});
    }
  }

  // 3, 8 and 9, of operators without a path between them.
  void AddOrder() {
    for (size_t i = 0; i < n_; ++i) {
      for (size_t j = 0; j < n_; ++j) {
        if (before_[i][j] < 0) continue;
        if (i < j)
          program_.rows.push_back({{{before_[i][j], 1}, {before_[j][i], 1}}, -kNoBound, 1});
        program_.rows.push_back(
            {{{Time(j), 1}, {Time(i), -1}, {OnAll(i), Saving(i)}, {before_[i][j], -horizon_}},
             Scaled(g_.ops[i].one) - horizon_,
             kNoBound});
        program_.rows.push_back(
            {{{before_[i][j], 1}, {before_[j][i], 1}, {OnAll(i), -1}}, 0, kNoBound});
      }
    }
  }

  int CoreIn(const std::vector<double>& values, size_t i) const {
    for (int32_t c = 0; c < CoresOf(g_.ops[i]); ++c) {
      if (values[Index(core_[i] + c)] > 0.5) return c;
    }
    return -1;
  }

  // Adds 15 and 16 for pairs on one core that are not ordered; false: there is none.
  bool Separate(const std::vector<double>& values) {
    const size_t rows = program_.rows.size();
    for (size_t i = 0; i < n_; ++i) {
      for (size_t j = 0; j < i; ++j) {
        const int c = CoreIn(values, i);
        if (before_[i][j] < 0 || !ShareCores(i, j) || c < 0 || c != CoreIn(values, j)) continue;
        if (values[Index(before_[i][j])] + values[Index(before_[j][i])] > 0.5) continue;
        for (int k = 0; k < std::min(CoresOf(g_.ops[i]), CoresOf(g_.ops[j])); ++k) {
          program_.rows.push_back(
              {{{before_[i][j], 1}, {before_[j][i], 1}, {core_[i] + k, -1}, {core_[j] + k, -1}},
               -1,
               kNoBound});
        }
      }
    }
    return program_.rows.size() > rows;
  }

  // Each operator as early as modes, cores and the order of the solution allow, in exact times.
  CoreSchedule Decode(const std::vector<double>& values) const {
    std::vector<size_t> order(n_);
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return values[Index(Time(a))] < values[Index(Time(b))];
    });
    CoreSchedule s;
    s.ops.resize(n_);
    for (size_t k = 0; k < n_; ++k) {
      const size_t i = order[k];
      ScheduledOp& at = s.ops[i];
      at.on_all = values[Index(OnAll(i))] > 0.5;
      at.core = at.on_all ? -1 : CoreIn(values, i);
      for (size_t l = 0; l < k; ++l) {
        const size_t j = order[l];
        const bool after = reaches_[j][i] || at.on_all || s.ops[j].on_all ||
                           (ShareCores(i, j) && s.ops[j].core == at.core);
        if (after) at.start = std::max(at.start, s.ops[j].end);
      }
      at.end = at.start + (at.on_all ? g_.ops[i].all : g_.ops[i].one);
      s.makespan = std::max(s.makespan, at.end);
    }
    return s;
  }

  const CoreGraph& g_;
  const size_t n_;
  const std::vector<std::vector<bool>> reaches_;
  CoreCounts cores_;
  double horizon_ = 0;
  MilpProblem program_;
  std::vector<int> core_;                 // first of an operator's columns for cores
  std::vector<std::vector<int>> before_;  // column, or -1 where a path orders the two
};

}  // namespace

absl::StatusOr<CoreSchedule> ScheduleByMilp(const CoreGraph& graph, const CoreCounts& cores,
                                            const ScheduleLimits& limits) {
  FORETRACE_ASSIGN_OR_RETURN(const std::vector<int32_t> order, CheckedOrder(graph));
  if (cores.tensor < 1 || cores.vector < 1) {
    return InvalidInput("schedule: {} tensor and {} vector cores; at least 1 of each", cores.tensor,
                        cores.vector);
  }
  CoreProgram program(graph, order, cores);
  FORETRACE_ASSIGN_OR_RETURN(CoreSchedule found, program.Solve(limits));
  found.bound = MakespanBound(graph, order, cores);
  return found;
}

}  // namespace foretrace
