#include "simulator/sharding/stack_placement.h"

#include <algorithm>
#include <utility>

namespace foretrace {
namespace {

// A power of two, or as many as there are ranks or columns.
int64_t Slices(const ShardingTask& task, const EmbeddingTable& table) {
  if (task.slice_elements <= 0) return 1;
  int64_t slices = 1;
  for (double elements = static_cast<double>(table.rows) * static_cast<double>(table.dim);
       elements > task.slice_elements; elements /= 2) {
    slices *= 2;
  }
  return std::min({slices, static_cast<int64_t>(task.gpus), table.dim});
}

}  // namespace

ShardingPlan DealtBySize(const ShardingTask& task) {
  std::vector<std::pair<int64_t, size_t>> slices;  // elements, table
  for (size_t t = 0; t < task.tables.size(); ++t) {
    const EmbeddingTable& table = task.tables[t];
    const int64_t n = Slices(task, table);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t columns = table.dim / n + (i < table.dim % n ? 1 : 0);
      slices.emplace_back(table.rows * columns, t);
    }
  }
  std::sort(slices.begin(), slices.end(), std::greater<>());
  ShardingPlan plan;
  plan.sharder = "memory_balanced";
  plan.tables.resize(task.tables.size());
  const auto gpus = static_cast<size_t>(task.gpus);
  for (size_t i = 0; i < slices.size(); ++i) {
    const size_t turn = i % (2 * gpus);
    const auto rank = static_cast<int32_t>(turn < gpus ? turn : 2 * gpus - 1 - turn);
    std::vector<int32_t>& ranks = plan.tables[slices[i].second].ranks;
    if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) ranks.push_back(rank);
  }
  for (TablePlacement& table : plan.tables) {
    table.kind = table.ranks.size() > 1 ? PlacementKind::kColumn : PlacementKind::kTable;
  }
  return plan;
}

}  // namespace foretrace
