// Assigns the shards of the LPT plan to ranks by an integer linear program:
//
//   minimise L + C   where for every rank  sum of lookup cost <= L,  sum of transfer cost <= C,
//                    sum of memory <= capacity; every shard on one rank, blocks of one table apart.
//
// Lookups of all ranks end before the all-to-all that the most loaded sender bounds, so the two
// maxima add up.

#include <CbcModel.hpp>
#include <OsiClpSolverInterface.hpp>

#include <algorithm>

#include "simulator/base/error.h"
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
    OsiClpSolverInterface solver;
    solver.messageHandler()->setLogLevel(0);
    Load(solver);
    CbcModel model(solver);
    model.setLogLevel(0);
    model.setMaximumNodes(
        static_cast<int>(std::min(kMostNodes, kNodesTimesVariables / variables())));
    model.setAllowableFractionGap(kGap);
    const std::vector<double> start = SeedSolution();
    model.setBestSolution(start.data(), static_cast<int>(start.size()), Objective(start), true);
    model.branchAndBound();
    const double* solution = model.bestSolution();
    ShardingPlan plan = seed_;
    if (solution == nullptr) return plan;  // nothing better than the seed within the limits
    for (size_t u = 0; u < units_.size(); ++u) {
      const double* x = solution + u * gpus_;
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

  void Load(OsiClpSolverInterface& solver) const {
    CoinPackedMatrix matrix(false, 0, 0);
    const int columns = static_cast<int>(variables()) + 2;
    matrix.setDimensions(0, columns);
    std::vector<double> low, high;
    const auto row = [&](const CoinPackedVector& v, double from, double to) {
      matrix.appendRow(v);
      low.push_back(from);
      high.push_back(to);
    };
    const double infinity = solver.getInfinity();
    for (size_t u = 0; u < units_.size(); ++u) {
      CoinPackedVector once;
      for (size_t r = 0; r < gpus_; ++r) once.insert(Column(u, r), 1);
      row(once, 1, 1);
    }
    for (size_t r = 0; r < gpus_; ++r) {
      CoinPackedVector lookup, transfer, memory;
      for (size_t u = 0; u < units_.size(); ++u) {
        lookup.insert(Column(u, r), units_[u].lookup_us);
        transfer.insert(Column(u, r), units_[u].transfer_us);
        memory.insert(Column(u, r), units_[u].gigabytes);
      }
      lookup.insert(LookupColumn(), -1);
      transfer.insert(TransferColumn(), -1);
      row(lookup, -infinity, -lookup_fixed_[r]);
      row(transfer, -infinity, 0);
      const Bytes room = problem_.task.memory - memory_fixed_[r];
      row(memory, -infinity, static_cast<double>(room.count()) * 1e-9);
      for (size_t u = 0; u + 1 < units_.size(); ++u) AddApart(u, r, row, infinity);
    }
    std::vector<double> lower(static_cast<size_t>(columns), 0), upper(lower), objective(lower);
    std::fill(upper.begin(), upper.end() - 2, 1);
    std::fill(upper.end() - 2, upper.end(), infinity);
    std::fill(objective.end() - 2, objective.end(), 1);
    solver.loadProblem(matrix, lower.data(), upper.data(), objective.data(), low.data(),
                       high.data());
    for (int c = 0; c < columns - 2; ++c) solver.setInteger(c);
  }

  // Blocks of the table that begins at unit `u`.
  template <typename Row>
  void AddApart(size_t u, size_t rank, const Row& row, double infinity) const {
    if (units_[u].position != 0 || units_[u + 1].table != units_[u].table) return;
    CoinPackedVector apart;
    for (size_t v = u; v < units_.size() && units_[v].table == units_[u].table; ++v) {
      apart.insert(Column(v, rank), 1);
    }
    row(apart, -infinity, 1);
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
  static double Objective(const std::vector<double>& x) { return x[x.size() - 2] + x.back(); }

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
