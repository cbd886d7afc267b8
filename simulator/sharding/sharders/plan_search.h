#pragma once
// Local search on the simulated iteration time: from the best plans of the other sharders, moves
// and swaps of shards and changes of how a table is placed; then, until the budget is used up,
// again from the best plan with a few random changes.

#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "simulator/base/split_mix.h"
#include "simulator/sharding/sharder.h"

namespace foretrace {

// Iteration time; among equals the plan whose modelled loads are more even, from which it is less
// far to a better one. Plans that are slower than what they are compared with are not told apart.
using PlanScore = std::tuple<int64_t, double>;

// The best plans met, each within a limit of memory.
class BestPlans {
 public:
  struct Found {
    PlanScore score;
    ShardingPlan plan;
  };

  // A place for plans of up to `limit`; known from then on.
  size_t Add(Bytes limit) {
    limits_.push_back(limit);
    found_.emplace_back();
    return limits_.size() - 1;
  }
  // `asked`: how many plans had been simulated.
  void Meet(const ShardingPlan& plan, const PlanScore& score, Bytes memory, int64_t asked) {
    for (size_t i = 0; i < limits_.size(); ++i) {
      if (memory > limits_[i] || (found_[i] && score >= found_[i]->score)) continue;
      found_[i] = Found{score, plan};
      found_[i]->plan.found_as = asked;
    }
  }
  const std::optional<Found>& at(size_t place) const { return found_[place]; }

 private:
  std::vector<Bytes> limits_;
  std::vector<std::optional<Found>> found_;
};

// What the searches under several limits share.
struct SearchState {
  explicit SearchState(uint64_t seed) : random(seed) {}
  BestPlans best;
  ShardingPlan packed;  // in the least memory that was found; a start wherever it fits
  SplitMixSequence random;
  int64_t asked = 0;
};

// Searches within the memory of the problem's task, which has `place` in state.best; ends at
// `budget` of state.asked. `all_starts`: from what all sharders make of the task; else from a
// packing and the best plan met.
absl::Status SearchPlans(const ShardingProblem& problem, size_t place, int64_t budget,
                         bool all_starts, SearchState& state);

}  // namespace foretrace
