#include "simulator/sharding/plan.h"

#include <algorithm>
#include <numeric>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"

namespace foretrace {
namespace {

// The bounds of part i of n of `size`, in multiples of `unit` where that leaves none empty.
int64_t Bound(int64_t size, int64_t unit, int64_t i, int64_t n) {
  const int64_t units = size / unit;
  if (units < n) return size * i / n;
  return i == n ? size : units * i / n * unit;
}

absl::Status CheckPlacement(const ShardingTask& task, const EmbeddingTable& table,
                            const TablePlacement& p, int32_t ranks_per_node) {
  const auto bad = [&](std::string_view what) {
    return InvalidInput("{}: table '{}' is placed {}: {}", task.file, table.name, Name(p.kind),
                        what);
  };
  for (const int32_t rank : p.ranks) {
    if (rank < 0 || rank >= task.gpus) {
      return bad(fmt::format("rank {} does not exist; the task has {} GPUs", rank, task.gpus));
    }
  }
  std::vector<int32_t> sorted = p.ranks;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
    return bad("a rank is named twice");
  }
  const auto count = static_cast<int32_t>(p.ranks.size());
  const int32_t per_node = ranks_per_node > 0 ? ranks_per_node : task.gpus;
  switch (p.kind) {
    case PlacementKind::kTable:
      if (count != 1) return bad(fmt::format("needs one rank, has {}", count));
      break;
    case PlacementKind::kColumn:
      if (count < 2 || count > table.dim) {
        return bad(fmt::format("needs 2 to {} ranks, has {}", table.dim, count));
      }
      break;
    case PlacementKind::kRow:
    case PlacementKind::kDataParallel:
      if (count != task.gpus) return bad(fmt::format("needs all {} ranks", task.gpus));
      break;
    case PlacementKind::kTableRow:
      if (count != per_node || sorted.front() % per_node != 0 ||
          sorted.back() != sorted.front() + per_node - 1) {
        return bad(fmt::format("needs the {} ranks of one node", per_node));
      }
      break;
    default:
      return bad("no such kind");
  }
  if (!task.allows(p.kind)) return bad("the task does not allow that");
  if (p.uvm && !task.uvm.allowed) return bad("in host memory, which the task does not allow");
  return absl::OkStatus();
}

}  // namespace

TablePlacement OnRank(int32_t rank) { return {PlacementKind::kTable, {rank}, false}; }

TablePlacement OnAllRanks(PlacementKind kind, int32_t gpus) {
  TablePlacement p{kind, std::vector<int32_t>(static_cast<size_t>(gpus)), false};
  std::iota(p.ranks.begin(), p.ranks.end(), 0);
  return p;
}

TablePlacement OnNode(int32_t node, int32_t ranks_per_node) {
  TablePlacement p{PlacementKind::kTableRow,
                   std::vector<int32_t>(static_cast<size_t>(ranks_per_node)), false};
  std::iota(p.ranks.begin(), p.ranks.end(), node * ranks_per_node);
  return p;
}

std::vector<Shard> ShardsOf(const EmbeddingTable& table, int32_t index,
                            const TablePlacement& placement) {
  std::vector<Shard> shards;
  const auto n = static_cast<int64_t>(placement.ranks.size());
  for (int64_t i = 0; i < n; ++i) {
    Shard s{index, placement.kind, 0, table.rows, 0, table.dim, placement.uvm};
    if (placement.kind == PlacementKind::kColumn) {
      s.first_column = Bound(table.dim, kColumnUnit, i, n);
      s.columns = Bound(table.dim, kColumnUnit, i + 1, n) - s.first_column;
    } else if (placement.kind == PlacementKind::kRow ||
               placement.kind == PlacementKind::kTableRow) {
      // torchrec's block size: rows / n rounded up.
      const int64_t block = (table.rows + n - 1) / n;
      s.first_row = std::min(table.rows, block * i);
      s.rows = std::min(table.rows, block * (i + 1)) - s.first_row;
    }
    shards.push_back(s);
  }
  return shards;
}

std::vector<std::vector<Shard>> ShardsByRank(const ShardingTask& task, const ShardingPlan& plan) {
  std::vector<std::vector<Shard>> by_rank(static_cast<size_t>(task.gpus));
  for (size_t t = 0; t < plan.tables.size(); ++t) {
    const TablePlacement& p = plan.tables[t];
    const std::vector<Shard> shards = ShardsOf(task.tables[t], static_cast<int32_t>(t), p);
    for (size_t i = 0; i < shards.size(); ++i) {
      by_rank[static_cast<size_t>(p.ranks[i])].push_back(shards[i]);
    }
  }
  return by_rank;
}

absl::Status CheckPlan(const ShardingTask& task, const ShardingPlan& plan, int32_t ranks_per_node) {
  if (plan.tables.size() != task.tables.size()) {
    return InvalidInput("{}: the plan '{}' places {} tables, the task has {}", task.file,
                        plan.sharder, plan.tables.size(), task.tables.size());
  }
  for (size_t t = 0; t < plan.tables.size(); ++t) {
    FORETRACE_RETURN_IF_ERROR(CheckPlacement(task, task.tables[t], plan.tables[t], ranks_per_node));
  }
  return absl::OkStatus();
}

}  // namespace foretrace
