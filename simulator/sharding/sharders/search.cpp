// Local search on the simulated iteration time: from the best plans of the other sharders, moves
// and swaps of shards and changes of how a table is placed; then, until the budget is used up,
// again from the best plan with a few random changes.

#include <algorithm>
#include <tuple>

#include "simulator/base/error.h"
#include "simulator/base/split_mix.h"
#include "simulator/base/status_macros.h"
#include "simulator/optimise/local_search.h"
#include "simulator/sharding/sharders/packing.h"

namespace foretrace {
namespace {

constexpr size_t kDescents = 3;              // starts that are followed to a local optimum
constexpr size_t kWholeNeighbourhood = 600;  // changes; larger ones are cut to the busiest rank
constexpr int kKicks = 3;
constexpr int64_t kProgressEvery = 64;

// One or two tables placed anew.
struct Change {
  size_t table = 0;
  TablePlacement placement;
  size_t other = SIZE_MAX;
  TablePlacement other_placement;
};

// Iteration time; among equals the plan whose modelled loads are more even, from which it is less
// far to a better one. Plans that are slower than what they are compared with are not told apart.
using Score = std::tuple<int64_t, double>;

class LocalSearch {
 public:
  explicit LocalSearch(const ShardingProblem& problem)
      : problem_(problem), task_(problem.task), random_(problem.seed) {}

  absl::StatusOr<ShardingPlan> Run() {
    std::vector<ShardingPlan> starts = Starts();
    if (!problem_.Fits(starts.front())) return starts.front();  // there is nothing to search among
    std::vector<std::pair<Score, ShardingPlan>> scored;
    for (ShardingPlan& plan : starts) {
      FORETRACE_ASSIGN_OR_RETURN(const Score score, ScoreOf(plan));
      scored.emplace_back(score, std::move(plan));
    }
    std::stable_sort(scored.begin(), scored.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    Score best_score = scored.front().first;
    ShardingPlan best = scored.front().second;
    const auto keep = [&](const Score& score, const ShardingPlan& plan) {
      if (score >= best_score) return;
      best_score = score;
      best = plan;
      best.found_as = asked_;
    };
    for (size_t i = 0; i < std::min(kDescents, scored.size()) && !Spent(); ++i) {
      auto& [score, plan] = scored[i];
      FORETRACE_RETURN_IF_ERROR(DescendFrom(plan, score));
      keep(score, plan);
    }
    while (!Spent()) {
      ShardingPlan plan = best;
      if (!Kick(plan)) break;
      FORETRACE_ASSIGN_OR_RETURN(Score score, ScoreOf(plan));
      FORETRACE_RETURN_IF_ERROR(DescendFrom(plan, score));
      keep(score, plan);
    }
    best.searched = asked_;
    return best;
  }

 private:
  bool Spent() const { return asked_ >= problem_.budget || problem_.stop.stop_requested(); }

  absl::StatusOr<Score> ScoreOf(const ShardingPlan& plan, int64_t slowest_ps = INT64_MAX) {
    if (++asked_ % kProgressEvery == 0 && problem_.progress) problem_.progress(asked_);
    FORETRACE_ASSIGN_OR_RETURN(const SimTime time, problem_.evaluator.IterationTime(plan));
    if (time.ps() > slowest_ps) return Score(time.ps(), 0);
    double squares = 0;
    for (const double load : problem_.costs.RankUs(plan)) squares += load * load;
    return Score(time.ps(), squares);
  }

  // What the other sharders make of the task, as far as it fits; at least one plan.
  std::vector<ShardingPlan> Starts() {
    std::vector<ShardingPlan> starts;
    starts.push_back(PackTables(problem_));
    ImprovePacking(problem_, starts.front());
    if (!problem_.Fits(starts.front())) return starts;
    for (const MakeSharder make : {MakeNaiveSharder, MakeSizeGreedySharder, MakeLookupGreedySharder,
                                   MakeNormLookupGreedySharder, MakeSizeLookupGreedySharder}) {
      absl::StatusOr<ShardingPlan> plan = make()->Shard(problem_);
      if (plan.ok() && problem_.Fits(*plan)) starts.push_back(*std::move(plan));
    }
    AddPartlySplit(starts);
    return starts;
  }

  // The costliest 1, 2, 4, ... tables by rows or the smallest as copies, and the rest packed: the
  // first table placed so brings a collective of its own, which a single change would have to pay
  // for.
  void AddPartlySplit(std::vector<ShardingPlan>& starts) {
    std::vector<double> cost(task_.tables.size()), size(cost);
    std::vector<size_t> costly(cost.size()), small(cost.size());
    for (size_t t = 0; t < cost.size(); ++t) {
      costly[t] = small[t] = t;
      const auto whole = ShardsOf(task_.tables[t], static_cast<int32_t>(t), OnRank(0));
      cost[t] = problem_.costs.ShardUs(whole.front());
      size[t] = static_cast<double>(task_.tables[t].weight_bytes().count());
    }
    std::stable_sort(costly.begin(), costly.end(),
                     [&](size_t a, size_t b) { return cost[a] > cost[b]; });
    std::stable_sort(small.begin(), small.end(),
                     [&](size_t a, size_t b) { return size[a] < size[b]; });
    for (const PlacementKind kind : {PlacementKind::kRow, PlacementKind::kDataParallel}) {
      if (!task_.allows(kind)) continue;
      const std::vector<size_t>& order = kind == PlacementKind::kRow ? costly : small;
      for (size_t n = 1;; n = std::min(2 * n, order.size())) {
        std::vector<TablePlacement> fixed(order.size());
        for (size_t i = 0; i < n; ++i) fixed[order[i]] = OnAllRanks(kind, task_.gpus);
        ShardingPlan plan = PackTables(problem_, fixed);
        ImprovePacking(problem_, plan);
        if (problem_.Fits(plan)) starts.push_back(std::move(plan));
        if (n == order.size()) break;
      }
    }
  }

  absl::Status DescendFrom(ShardingPlan& plan, Score& score) {
    const auto attempt = [&](const Change& change) -> absl::StatusOr<bool> {
      const Change undo = Apply(change, plan);
      if (problem_.Fits(plan)) {
        FORETRACE_ASSIGN_OR_RETURN(const Score changed, ScoreOf(plan, std::get<0>(score)));
        if (changed < score) {
          score = changed;
          return true;
        }
      }
      Apply(undo, plan);
      return false;
    };
    return Descend([&] { return Neighbours(plan); }, attempt, [&] { return Spent(); });
  }

  static Change Apply(const Change& change, ShardingPlan& plan) {
    Change undo{change.table, plan.tables[change.table], change.other, {}};
    plan.tables[change.table] = change.placement;
    if (change.other != SIZE_MAX) {
      undo.other_placement = plan.tables[change.other];
      plan.tables[change.other] = change.other_placement;
    }
    return undo;
  }

  static bool Movable(const TablePlacement& p) {
    return p.kind == PlacementKind::kTable || p.kind == PlacementKind::kColumn;
  }

  // Those that take work off the busiest rank come first; in large tasks there are no others.
  std::vector<Change> Neighbours(const ShardingPlan& plan) {
    const std::vector<double> loads = problem_.costs.RankUs(plan);
    std::vector<int32_t> ranks(loads.size());
    for (size_t r = 0; r < ranks.size(); ++r) ranks[r] = static_cast<int32_t>(r);
    std::stable_sort(ranks.begin(), ranks.end(), [&](int32_t a, int32_t b) {
      return loads[static_cast<size_t>(a)] > loads[static_cast<size_t>(b)];
    });
    std::vector<Change> changes;
    for (const int32_t from : ranks) {
      AddMoves(plan, from, ranks, changes);
      if (changes.size() > kWholeNeighbourhood) return changes;
    }
    for (size_t t = 0; t < plan.tables.size(); ++t) {
      if (!Movable(plan.tables[t])) AddKinds(plan, t, ranks, changes);
    }
    return changes;
  }

  void AddMoves(const ShardingPlan& plan, int32_t from, const std::vector<int32_t>& ranks,
                std::vector<Change>& changes) {
    for (size_t t = 0; t < plan.tables.size(); ++t) {
      const TablePlacement& p = plan.tables[t];
      if (!Movable(p)) continue;
      const auto at = std::find(p.ranks.begin(), p.ranks.end(), from);
      if (at == p.ranks.end()) continue;
      const auto position = static_cast<size_t>(at - p.ranks.begin());
      for (auto to = ranks.rbegin(); to != ranks.rend(); ++to) {
        if (std::find(p.ranks.begin(), p.ranks.end(), *to) != p.ranks.end()) continue;
        Change move{t, p, SIZE_MAX, {}};
        move.placement.ranks[position] = *to;
        changes.push_back(move);
        AddSwaps(plan, move, from, *to, changes);
      }
      AddKinds(plan, t, ranks, changes);
    }
  }

  // The move of one shard, and one of another table the other way.
  void AddSwaps(const ShardingPlan& plan, const Change& move, int32_t from, int32_t to,
                std::vector<Change>& changes) {
    for (size_t t = 0; t < plan.tables.size(); ++t) {
      const TablePlacement& p = plan.tables[t];
      if (t == move.table || !Movable(p)) continue;
      const auto at = std::find(p.ranks.begin(), p.ranks.end(), to);
      if (at == p.ranks.end()) continue;
      if (std::find(p.ranks.begin(), p.ranks.end(), from) != p.ranks.end()) continue;
      Change swap = move;
      swap.other = t;
      swap.other_placement = p;
      swap.other_placement.ranks[static_cast<size_t>(at - p.ranks.begin())] = from;
      changes.push_back(std::move(swap));
    }
  }

  // The other ways to place a table. `ranks` from the most to the least loaded.
  void AddKinds(const ShardingPlan& plan, size_t t, const std::vector<int32_t>& ranks,
                std::vector<Change>& changes) {
    const TablePlacement& now = plan.tables[t];
    const auto add = [&](TablePlacement p) {
      p.uvm = now.uvm && p.kind != PlacementKind::kDataParallel;
      if (p != now && task_.allows(p.kind)) changes.push_back({t, std::move(p), SIZE_MAX, {}});
    };
    const EmbeddingTable& table = task_.tables[t];
    if (now.kind != PlacementKind::kTable) {
      for (auto r = ranks.rbegin(); r != ranks.rend() && r - ranks.rbegin() < 8; ++r) {
        add(OnRank(*r));
      }
    }
    for (int32_t n = 2; n <= task_.gpus && table.dim / n >= kNarrowestColumns; n *= 2) {
      if (now.kind == PlacementKind::kColumn && now.ranks.size() == static_cast<size_t>(n))
        continue;
      add({PlacementKind::kColumn, {ranks.rbegin(), ranks.rbegin() + n}, false});
    }
    if (now.kind != PlacementKind::kRow) add(OnAllRanks(PlacementKind::kRow, task_.gpus));
    if (now.kind != PlacementKind::kDataParallel) {
      add(OnAllRanks(PlacementKind::kDataParallel, task_.gpus));
    }
    for (int32_t node = 0; node < std::min(8, task_.gpus / problem_.ranks_per_node); ++node) {
      add(OnNode(node, problem_.ranks_per_node));
    }
    if (task_.uvm.allowed && now.uvm) {
      TablePlacement resident = now;
      resident.uvm = false;
      changes.push_back({t, resident, SIZE_MAX, {}});
    }
  }

  // False when there is nothing to change.
  bool Kick(ShardingPlan& plan) {
    for (int k = 0; k < kKicks; ++k) {
      const std::vector<Change> changes = Neighbours(plan);
      if (changes.empty()) return false;
      for (int attempt = 0; attempt < 8; ++attempt) {
        const auto pick = random_.Below(static_cast<int64_t>(changes.size()));
        const Change undo = Apply(changes[static_cast<size_t>(pick)], plan);
        if (problem_.Fits(plan)) break;
        Apply(undo, plan);
      }
    }
    return true;
  }

  const ShardingProblem& problem_;
  const ShardingTask& task_;
  SplitMixSequence random_;
  int64_t asked_ = 0;
};

class SearchSharder : public Sharder {
 public:
  std::string_view name() const override { return "search"; }
  absl::StatusOr<ShardingPlan> Shard(const ShardingProblem& problem) const override {
    return LocalSearch(problem).Run();
  }
};

}  // namespace

std::unique_ptr<Sharder> MakeSearchSharder() { return std::make_unique<SearchSharder>(); }

}  // namespace foretrace
