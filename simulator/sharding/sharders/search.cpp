// Local search on the simulated iteration time, through a series of limits of memory that follows
// from the tables alone: without a limit first, then from the tightest on up to what a GPU has. It
// answers with the best plan met that fits. So more memory adds to what is looked at and takes
// nothing away: it never gives a slower plan, which one search under the GPU's own limit does where
// it ends in another local optimum.

#include <limits>
#include <optional>
#include <vector>

#include "simulator/base/status_macros.h"
#include "simulator/sharding/sharders/packing.h"
#include "simulator/sharding/sharders/plan_search.h"

namespace foretrace {
namespace {

// From one limit of memory to the next: up to about kLastStep of the least, by doublings beyond.
constexpr double kStep = 1.15, kLastStep = 1.3;

class LimitedSearches {
 public:
  explicit LimitedSearches(const ShardingProblem& problem)
      : problem_(problem), limited_(problem.task), state_(problem.seed) {}

  absl::StatusOr<ShardingPlan> Run() {
    constexpr Bytes kNone(std::numeric_limits<int64_t>::max() / 4);
    const std::optional<Bytes> least = Least();
    if (!least || problem_.task.memory < *least) return PackTables(problem_);
    const size_t own = state_.best.Add(problem_.task.memory);
    const size_t none = state_.best.Add(kNone);
    FORETRACE_RETURN_IF_ERROR(Search(kNone, none, problem_.budget * 3 / 4, true));
    const std::vector<Bytes> limits = Limits(*least, none);
    std::vector<size_t> places;
    for (const Bytes limit : limits) places.push_back(state_.best.Add(limit));
    const int64_t left = problem_.budget - state_.asked;
    for (size_t i = 0; i < limits.size() && limits[i] <= problem_.task.memory; ++i) {
      const int64_t share = left / static_cast<int64_t>(limits.size());
      FORETRACE_RETURN_IF_ERROR(Search(limits[i], places[i], state_.asked + share, false));
    }
    if (limits.empty()) FORETRACE_RETURN_IF_ERROR(Search(kNone, none, problem_.budget, false));
    if (!state_.best.at(own)) return PackTables(problem_);  // the nearest miss
    ShardingPlan best = state_.best.at(own)->plan;
    best.searched = state_.asked;
    return best;
  }

 private:
  absl::Status Search(Bytes limit, size_t place, int64_t budget, bool all_starts) {
    limited_.memory = limit;
    const ShardingProblem problem = Limited();
    return SearchPlans(problem, place, budget, all_starts, state_);
  }

  ShardingProblem Limited() const {
    return {limited_,           problem_.dense,          problem_.costs,
            problem_.evaluator, problem_.ranks_per_node, problem_.seed,
            problem_.budget,    problem_.progress,       problem_.stop};
  }

  Bytes Memory(const ShardingPlan& plan) const {
    return MemoryOf(limited_, problem_.dense, plan).largest;
  }

  // The least memory that a packing is found for: within what an even division would take, then in
  // small steps within more. None: not even where one GPU has room for all.
  std::optional<Bytes> Least() {
    constexpr double kMore = 1.03;
    const Bytes fixed = Memory({"", {}});
    double tables = 0;
    for (size_t t = 0; t < limited_.tables.size(); ++t) {
      const auto shards = ShardsOf(limited_.tables[t], static_cast<int32_t>(t), OnRank(0));
      tables += static_cast<double>(MemoryOf(limited_, shards.front()).total().count());
    }
    for (double times = 1; times < kMore * limited_.gpus; times *= kMore) {
      limited_.memory = fixed + Bytes(static_cast<int64_t>(tables / limited_.gpus * times));
      const ShardingPlan plan = PackTables(Limited());
      if (!Limited().Fits(plan)) continue;
      state_.packed = plan;
      return Memory(plan);
    }
    return std::nullopt;
  }

  // From the least up to what the best plan without a limit takes.
  std::vector<Bytes> Limits(Bytes least, size_t none) {
    std::vector<Bytes> limits;
    if (!state_.best.at(none)) return limits;
    const Bytes most = Memory(state_.best.at(none)->plan);
    for (double times = 1; least.count() > 0;
         times = times < kLastStep ? times * kStep : 2 * times) {
      const Bytes limit(static_cast<int64_t>(static_cast<double>(least.count()) * times));
      if (limit >= most) break;
      limits.push_back(limit);
    }
    return limits;
  }

  const ShardingProblem& problem_;
  ShardingTask limited_;
  SearchState state_;
};

class SearchSharder : public Sharder {
 public:
  std::string_view name() const override { return "search"; }
  absl::StatusOr<ShardingPlan> Shard(const ShardingProblem& problem) const override {
    return LimitedSearches(problem).Run();
  }
};

}  // namespace

std::unique_ptr<Sharder> MakeSearchSharder() { return std::make_unique<SearchSharder>(); }

}  // namespace foretrace
