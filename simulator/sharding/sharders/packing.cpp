#include "simulator/sharding/sharders/packing.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

namespace foretrace {
namespace {

constexpr int kImprovements = 1000;  // at most; each lowers the largest load

// How far PackTables goes to make a plan fit.
enum class Effort { kByCost, kByMemory, kSplitAll, kHost, kAllHost, kCount };

class Packer {
 public:
  Packer(const ShardingProblem& problem, const std::vector<TablePlacement>& fixed, Effort effort)
      : problem_(problem), task_(problem.task), fixed_(fixed), effort_(effort), bins_(problem) {}

  ShardingPlan Pack() {
    ShardingPlan plan;
    plan.tables.resize(task_.tables.size());
    std::vector<size_t> order(task_.tables.size());
    std::iota(order.begin(), order.end(), 0);
    std::vector<double> cost(order.size());
    for (size_t t : order) cost[t] = CostOf(t);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return std::pair(!IsFixed(a), -cost[a]) < std::pair(!IsFixed(b), -cost[b]);
    });
    for (const size_t t : order) {
      plan.tables[t] = IsFixed(t) ? fixed_[t] : Choose(t);
      const auto shards = ShardsOf(task_.tables[t], static_cast<int32_t>(t), plan.tables[t]);
      for (size_t i = 0; i < shards.size(); ++i) {
        bins_.Add(shards[i], plan.tables[t].ranks[i], problem_.costs.ShardUs(shards[i]));
      }
    }
    return plan;
  }

 private:
  bool by_memory() const { return effort_ != Effort::kByCost; }
  bool IsFixed(size_t t) const { return t < fixed_.size() && !fixed_[t].ranks.empty(); }

  double CostOf(size_t t) {
    const auto shards = ShardsOf(task_.tables[t], static_cast<int32_t>(t), OnRank(0));
    if (by_memory()) {
      return static_cast<double>(MemoryOf(task_, shards.front()).total().count());
    }
    return problem_.costs.ShardUs(shards.front());
  }

  bool Fits(size_t t, const TablePlacement& p) const {
    const auto shards = ShardsOf(task_.tables[t], static_cast<int32_t>(t), p);
    for (size_t i = 0; i < shards.size(); ++i) {
      if (!bins_.HasRoom(shards[i], p.ranks[i])) return false;
    }
    return true;
  }

  // Whole, or in 2, 4, ... blocks of columns, on the ranks that are least loaded; then by rows. In
  // host memory: what does not fit, with kAllHost what could, so that all have room.
  TablePlacement Choose(size_t t) {
    std::vector<TablePlacement> options = Options(t);
    const bool host = task_.uvm.allowed && effort_ >= Effort::kHost;
    if (!host || effort_ != Effort::kAllHost) {
      for (const TablePlacement& p : options) {
        if (Fits(t, p)) return p;
      }
    }
    if (host) {
      for (TablePlacement& p : options) {
        p.uvm = p.kind != PlacementKind::kDataParallel;
        if (Fits(t, p)) return p;
      }
    }
    return options.back();
  }

  std::vector<TablePlacement> Options(size_t t) {
    std::vector<TablePlacement> options;
    const EmbeddingTable& table = task_.tables[t];
    const std::vector<int32_t> ranks = bins_.Order(by_memory());
    if (task_.allows(PlacementKind::kTable) && effort_ != Effort::kSplitAll) {
      for (const int32_t r : ranks) options.push_back(OnRank(r));
    }
    if (task_.allows(PlacementKind::kColumn)) {
      for (int32_t n = 2; n <= task_.gpus && table.dim / n >= kNarrowestColumns; n *= 2) {
        options.push_back({PlacementKind::kColumn, {ranks.begin(), ranks.begin() + n}, false});
      }
    }
    if (task_.allows(PlacementKind::kTableRow)) {
      for (int32_t node = 0; node < task_.gpus / problem_.ranks_per_node; ++node) {
        options.push_back(OnNode(node, problem_.ranks_per_node));
      }
    }
    if (task_.allows(PlacementKind::kRow)) {
      options.push_back(OnAllRanks(PlacementKind::kRow, task_.gpus));
    }
    if (options.empty() && task_.allows(PlacementKind::kTable)) {
      for (const int32_t r : ranks) options.push_back(OnRank(r));
    }
    if (options.empty() && task_.allows(PlacementKind::kColumn) && task_.gpus > 1 &&
        table.dim > 1) {
      options.push_back({PlacementKind::kColumn, {ranks[0], ranks[1]}, false});
    }
    if (options.empty()) {
      options.push_back(OnAllRanks(PlacementKind::kDataParallel, task_.gpus));
    }
    return options;
  }

  const ShardingProblem& problem_;
  const ShardingTask& task_;
  const std::vector<TablePlacement>& fixed_;
  Effort effort_;
  RankBins bins_;
};

// A shard that can go to another rank.
struct Unit {
  size_t table;
  size_t position;
  Shard shard;
  double load;
};

std::vector<std::vector<Unit>> UnitsByRank(const ShardingProblem& problem,
                                           const ShardingPlan& plan) {
  std::vector<std::vector<Unit>> units(static_cast<size_t>(problem.task.gpus));
  for (size_t t = 0; t < plan.tables.size(); ++t) {
    const TablePlacement& p = plan.tables[t];
    if (p.kind != PlacementKind::kTable && p.kind != PlacementKind::kColumn) continue;
    const auto shards = ShardsOf(problem.task.tables[t], static_cast<int32_t>(t), p);
    for (size_t i = 0; i < shards.size(); ++i) {
      units[static_cast<size_t>(p.ranks[i])].push_back(
          {t, i, shards[i], problem.costs.ShardUs(shards[i])});
    }
  }
  return units;
}

bool Holds(const TablePlacement& p, int32_t rank) {
  return std::find(p.ranks.begin(), p.ranks.end(), rank) != p.ranks.end();
}

}  // namespace

RankBins::RankBins(const ShardingProblem& problem, const ShardingPlan* placed)
    : problem_(problem), load_(static_cast<size_t>(problem.task.gpus), 0) {
  const MemoryVerdict fixed = MemoryOf(problem.task, problem.dense, {"", {}});
  used_.assign(load_.size(), fixed.largest);
  if (placed == nullptr) return;
  const auto by_rank = ShardsByRank(problem.task, *placed);
  for (size_t r = 0; r < by_rank.size(); ++r) {
    for (const Shard& s : by_rank[r]) Add(s, static_cast<int32_t>(r), problem.costs.ShardUs(s));
  }
}

void RankBins::Add(const Shard& shard, int32_t rank, double load) {
  load_[static_cast<size_t>(rank)] += load;
  used_[static_cast<size_t>(rank)] += MemoryOf(problem_.task, shard).total();
}

void RankBins::Remove(const Shard& shard, int32_t rank, double load) {
  Bytes& used = used_[static_cast<size_t>(rank)];
  load_[static_cast<size_t>(rank)] -= load;
  used = used - MemoryOf(problem_.task, shard).total();
}

bool RankBins::HasRoom(const Shard& shard, int32_t rank) const {
  return used(rank) + MemoryOf(problem_.task, shard).total() <= problem_.task.memory;
}

std::vector<int32_t> RankBins::Order(bool by_memory) const {
  std::vector<int32_t> ranks(load_.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  std::stable_sort(ranks.begin(), ranks.end(), [&](int32_t a, int32_t b) {
    return by_memory ? used(a) < used(b) : load(a) < load(b);
  });
  return ranks;
}

int32_t RankBins::Fullest() const {
  return static_cast<int32_t>(std::max_element(load_.begin(), load_.end()) - load_.begin());
}

void ImprovePacking(const ShardingProblem& problem, ShardingPlan& plan) {
  RankBins bins(problem, &plan);
  for (int step = 0; step < kImprovements; ++step) {
    const int32_t from = bins.Fullest();
    const double limit = bins.load(from) * (1 - 1e-9);
    const std::vector<std::vector<Unit>> units = UnitsByRank(problem, plan);
    const std::vector<Unit>& mine = units[static_cast<size_t>(from)];
    // The move or swap whose larger load afterwards is the least.
    double best = limit;
    std::optional<Unit> give, take;
    int32_t to = -1;
    for (const int32_t r : bins.Order(false)) {
      if (r == from) continue;
      const std::vector<Unit>& theirs = units[static_cast<size_t>(r)];
      for (const Unit& u : mine) {
        if (Holds(plan.tables[u.table], r)) continue;
        const double moved = std::max(bins.load(from) - u.load, bins.load(r) + u.load);
        if (moved < best && bins.HasRoom(u.shard, r)) {
          best = moved;
          give = u;
          take.reset();
          to = r;
        }
        for (const Unit& v : theirs) {
          const double delta = u.load - v.load;
          const double swapped = std::max(bins.load(from) - delta, bins.load(r) + delta);
          if (swapped >= best || Holds(plan.tables[v.table], from)) continue;
          const Bytes mine_bytes = MemoryOf(problem.task, u.shard).total();
          const Bytes their_bytes = MemoryOf(problem.task, v.shard).total();
          if (bins.used(r) + mine_bytes - their_bytes > problem.task.memory) continue;
          if (bins.used(from) + their_bytes - mine_bytes > problem.task.memory) continue;
          best = swapped;
          give = u;
          take = v;
          to = r;
        }
      }
    }
    if (!give) return;
    const auto move = [&](const Unit& u, int32_t a, int32_t b) {
      bins.Remove(u.shard, a, u.load);
      bins.Add(u.shard, b, u.load);
      plan.tables[u.table].ranks[u.position] = b;
    };
    move(*give, from, to);
    if (take) move(*take, to, from);
  }
}

ShardingPlan PackTables(const ShardingProblem& problem, const std::vector<TablePlacement>& fixed) {
  std::optional<ShardingPlan> nearest;
  Bytes least;
  for (int e = 0; e < static_cast<int>(Effort::kCount); ++e) {
    ShardingPlan plan = Packer(problem, fixed, static_cast<Effort>(e)).Pack();
    const MemoryVerdict verdict = MemoryOf(problem.task, problem.dense, plan);
    if (verdict.fits) return plan;
    if (!nearest || verdict.largest < least) {
      nearest = std::move(plan);
      least = verdict.largest;
    }
  }
  return *std::move(nearest);
}

}  // namespace foretrace
