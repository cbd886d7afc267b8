// Assigns the shards of the LPT plan to ranks by an integer linear program:
//
//   minimise L + C   where for every rank  sum of lookup cost <= L,  sum of transfer cost <= C,
//                    sum of memory <= capacity; every shard on one rank, blocks of one table apart.
//
// Lookups of all ranks end before the all-to-all that the most loaded sender bounds, so the two
// maxima add up.

#include <algorithm>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/optimise/milp.h"
#include "simulator/sharding/sharders/packing.h"

namespace foretrace {
namespace {

constexpr size_t kMostVariables = 2000;
// Nodes of the branch and bound: fewer where each costs more, so that a task takes about a second.
constexpr size_t kNodesTimesVariables = 40'000;
constexpr size_t kMostNodes = 400;
constexpr double kGap = 0.002;

struct Unit {
  size_t table;
  size_t position;
  Shard shard;
  double lookup_us, transfer_us, gigabytes;
};

class AssignmentProgram {
 public:
  AssignmentProgram(const ShardingProblem& problem, const ShardingPlan& seed)
      : problem_(problem), seed_(seed), gpus_(static_cast<size_t>(problem.task.gpus)) {
    lookup_fixed_.assign(gpus_, 0);
    memory_fixed_.assign(gpus_, MemoryOf(problem.task, problem.dense, {"", {}}).largest);
    for (size_t t = 0; t < seed.tables.size(); ++t) {
      const TablePlacement& p = seed.tables[t];
      const std::vector<Shard> shards =
          ShardsOf(problem.task.tables[t], static_cast<int32_t>(t), p);
      for (size_t i = 0; i < shards.size(); ++i) AddShard(t, i, shards[i], p);
    }
  }

  size_t variables() const { return units_.size() * gpus_; }

  absl::StatusOr<ShardingPlan> Solve() {
    MilpProblem program = Program();
    program.start = SeedSolution();
    program.max_nodes = static_cast<int>(std::min(kMostNodes, kNodesTimesVariables / variables()));
    program.relative_gap = kGap;
    FORETRACE_ASSIGN_OR_RETURN(const MilpSolution solution, SolveMilp(program));
    ShardingPlan plan = seed_;
    if (!solution.found()) return plan;  // nothing better than the seed within the limits
    for (size_t u = 0; u < units_.size(); ++u) {
      const double* x = solution.values.data() + u * gpus_;
      plan.tables[units_[u].table].ranks[units_[u].position] =
          static_cast<int32_t>(std::max_element(x, x + gpus_) - x);
    }
    return plan;
  }

 private:
  void AddShard(size_t table, size_t position, const Shard& shard, const TablePlacement& p) {
    const Bytes memory = MemoryOf(problem_.task, shard).total();
    if (p.kind == PlacementKind::kTable || p.kind == PlacementKind::kColumn) {
      units_.push_back({table, position, shard, problem_.costs.LookupUs(shard),
                        problem_.costs.TransferUs(shard),
                        static_cast<double>(memory.count()) * 1e-9});
      return;
    }
    const auto rank = static_cast<size_t>(p.ranks[position]);
    lookup_fixed_[rank] += problem_.costs.LookupUs(shard);
    memory_fixed_[rank] += memory;
  }

  int Column(size_t unit, size_t rank) const { return static_cast<int>(unit * gpus_ + rank); }
  int LookupColumn() const { return static_cast<int>(variables()); }
  int TransferColumn() const { return static_cast<int>(variables()) + 1; }

  MilpProblem Program() const {
    MilpProblem program;
    program.columns.assign(variables(), {0, 1, 0, true});
    program.columns.resize(variables() + 2, {0, kNoBound, 1, false});
    for (size_t u = 0; u < units_.size(); ++u) {
      MilpRow once{{}, 1, 1};
      for (size_t r = 0; r < gpus_; ++r) once.terms.emplace_back(Column(u, r), 1);
      program.rows.push_back(std::move(once));
    }
    for (size_t r = 0; r < gpus_; ++r) {
      MilpRow lookup{{}, -kNoBound, -lookup_fixed_[r]}, transfer{{}, -kNoBound, 0}, memory;
      for (size_t u = 0; u < units_.size(); ++u) {
        lookup.terms.emplace_back(Column(u, r), units_[u].lookup_us);
        transfer.terms.emplace_back(Column(u, r), units_[u].transfer_us);
        memory.terms.emplace_back(Column(u, r), units_[u].gigabytes);
      }
      lookup.terms.emplace_back(LookupColumn(), -1);
      transfer.terms.emplace_back(TransferColumn(), -1);
      memory.upper = static_cast<double>((problem_.task.memory - memory_fixed_[r]).count()) * 1e-9;
      for (MilpRow* row : {&lookup, &transfer, &memory}) program.rows.push_back(std::move(*row));
      for (size_t u = 0; u + 1 < units_.size(); ++u) AddApart(u, r, program);
    }
    return program;
  }

  // Blocks of the table that begins at `unit`.
  void AddApart(size_t unit, size_t rank, MilpProblem& program) const {
    if (units_[unit].position != 0 || units_[unit + 1].table != units_[unit].table) return;
    MilpRow apart{{}, -kNoBound, 1};
    for (size_t v = unit; v < units_.size() && units_[v].table == units_[unit].table; ++v) {
      apart.terms.emplace_back(Column(v, rank), 1);
    }
    program.rows.push_back(std::move(apart));
  }

  std::vector<double> SeedSolution() const {
    std::vector<double> x(variables() + 2, 0);
    std::vector<double> lookup = lookup_fixed_, transfer(gpus_, 0);
    for (size_t u = 0; u < units_.size(); ++u) {
      const auto rank =
          static_cast<size_t>(seed_.tables[units_[u].table].ranks[units_[u].position]);
      x[static_cast<size_t>(Column(u, rank))] = 1;
      lookup[rank] += units_[u].lookup_us;
      transfer[rank] += units_[u].transfer_us;
    }
    x[x.size() - 2] = *std::max_element(lookup.begin(), lookup.end());
    x[x.size() - 1] = *std::max_element(transfer.begin(), transfer.end());
    return x;
  }

  const ShardingProblem& problem_;
  const ShardingPlan& seed_;
  size_t gpus_;
  std::vector<Unit> units_;
  std::vector<double> lookup_fixed_;
  std::vector<Bytes> memory_fixed_;
};

class IlpSharder : public Sharder {
 public:
  std::string_view name() const override { return "ilp"; }
  absl::StatusOr<ShardingPlan> Shard(const ShardingProblem& problem) const override {
    ShardingPlan seed = PackTables(problem);
    ImprovePacking(problem, seed);
    if (!problem.Fits(seed)) return seed;
    AssignmentProgram program(problem, seed);
    if (program.variables() > kMostVariables) {
      return Infeasible("sharder ilp takes at most {} variables (shards x GPUs); this task has {}",
                        kMostVariables, program.variables());
    }
    if (program.variables() == 0) return seed;
    return program.Solve();
  }
};

}  // namespace

std::unique_ptr<Sharder> MakeIlpSharder() { return std::make_unique<IlpSharder>(); }

}  // namespace foretrace
