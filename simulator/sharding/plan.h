#pragma once
// A sharding plan: where each table goes. A value; what it costs is elsewhere.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "simulator/sharding/task.h"

namespace foretrace {

struct TablePlacement {
  PlacementKind kind = PlacementKind::kTable;
  // kTable: the one rank. kColumn: the rank of each block of columns, from the first on, all
  // different. kRow, kDataParallel: all ranks. kTableRow: the ranks of one node.
  std::vector<int32_t> ranks;
  bool uvm = false;  // weights in host memory, with a cache on the device

  bool operator==(const TablePlacement&) const = default;
};

struct ShardingPlan {
  std::string sharder;
  std::vector<TablePlacement> tables;  // by the task's tables
  // Of a search: how many plans it simulated, and as which of them it found this one.
  int64_t searched = 0, found_as = 0;
};

// A part of one table on one rank.
struct Shard {
  int32_t table = 0;
  PlacementKind kind = PlacementKind::kTable;
  int64_t first_row = 0, rows = 0;
  int64_t first_column = 0, columns = 0;
  bool uvm = false;
};

// Column blocks are multiples of this many elements where the dimension allows: vector loads.
inline constexpr int64_t kColumnUnit = 4;
// Narrower blocks leave lookups bound by latency; torchrec's planner has the same floor.
inline constexpr int64_t kNarrowestColumns = 16;

// `ranks_per_node` 0: one node.
TablePlacement OnRank(int32_t rank);
TablePlacement OnAllRanks(PlacementKind kind, int32_t gpus);
TablePlacement OnNode(int32_t node, int32_t ranks_per_node);

// The shards of one placement, by position in its ranks.
std::vector<Shard> ShardsOf(const EmbeddingTable& table, int32_t index,
                            const TablePlacement& placement);
// By rank.
std::vector<std::vector<Shard>> ShardsByRank(const ShardingTask& task, const ShardingPlan& plan);

// Every table is placed exactly once, in a way that the task allows, on ranks that exist. Errors
// name the table.
absl::Status CheckPlan(const ShardingTask& task, const ShardingPlan& plan, int32_t ranks_per_node);

}  // namespace foretrace
