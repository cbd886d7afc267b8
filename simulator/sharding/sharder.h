#pragma once
// Algorithms that make a plan for a task. One file each in sharders/.

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/sharding/evaluator.h"
#include "simulator/sharding/modelled_cost.h"

namespace foretrace {

// What a sharder may look at.
struct ShardingProblem {
  const ShardingTask& task;
  const DenseWork& dense;
  ModelledCost& costs;
  PlanEvaluator& evaluator;  // for those that search on simulated time
  int32_t ranks_per_node = 1;
  uint64_t seed = 1;
  int64_t budget = 0;                               // simulated plans that one search may ask for
  std::function<void(int64_t)> progress = nullptr;  // told how many a search has asked for
  std::stop_token stop = {};                        // a search ends with its best so far

  bool Fits(const ShardingPlan& plan) const { return MemoryOf(task, dense, plan).fits; }
};

// Deterministic: the same problem and seed give the same plan.
class Sharder {
 public:
  virtual ~Sharder() = default;
  virtual std::string_view name() const = 0;
  // A plan that CheckPlan accepts. It need not fit in memory where this sharder finds none that
  // does. Infeasible where the sharder cannot work on the task at all, saying why.
  virtual absl::StatusOr<ShardingPlan> Shard(const ShardingProblem& problem) const = 0;
};

using MakeSharder = std::unique_ptr<Sharder> (*)();

// The multi-GPU paper's six (table III).
std::unique_ptr<Sharder> MakeNaiveSharder();
std::unique_ptr<Sharder> MakeRandomSharder();
std::unique_ptr<Sharder> MakeSizeGreedySharder();
std::unique_ptr<Sharder> MakeLookupGreedySharder();
std::unique_ptr<Sharder> MakeNormLookupGreedySharder();
std::unique_ptr<Sharder> MakeSizeLookupGreedySharder();
// Longest processing time first on modelled cost, improved by moves and swaps; splits tables that
// do not fit whole.
std::unique_ptr<Sharder> MakeLptSharder();
// An integer linear program on modelled cost, seeded by the plan of MakeLptSharder.
std::unique_ptr<Sharder> MakeIlpSharder();
// Local search whose objective is the simulated iteration time.
std::unique_ptr<Sharder> MakeSearchSharder();

// All of them, in the order of their names on the command line.
std::vector<std::unique_ptr<Sharder>> AllSharders();
// The first six.
inline constexpr size_t kPaperSharders = 6;

// Simulated plans that a search of the task gets by default.
int64_t DefaultBudget(const ShardingTask& task);

}  // namespace foretrace
