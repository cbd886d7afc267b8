#include "simulator/sharding/plan_work.h"

#include <algorithm>
#include <cmath>

#include "simulator/base/enum_names.h"

namespace foretrace {
namespace {

constexpr double kLengthBytes = 4;  // lookups per sample and table: int32
constexpr double kIndexBytes = 8;   // int64
constexpr double kPooledBytes = 4;  // pooled vectors and their gradients: fp32

struct RankTraffic {
  double lengths = 0, indices = 0;  // received
  double columns = 0;               // of table- and column-wise shards
};

struct Traffic {
  std::vector<RankTraffic> ranks;
  double row_columns = 0;
  std::vector<double> node_columns;  // of table-row-wise tables, by node
  double copied_bytes = 0;
};

Bytes Rounded(double bytes) { return Bytes(std::llround(bytes)); }

Traffic TrafficOf(const ShardingTask& task, const std::vector<std::vector<Shard>>& by_rank,
                  int32_t ranks_per_node, LookupCosts& lookups, PlanWork& work) {
  Traffic traffic;
  traffic.ranks.resize(by_rank.size());
  traffic.node_columns.assign((by_rank.size() + static_cast<size_t>(ranks_per_node) - 1) /
                                  static_cast<size_t>(ranks_per_node),
                              0);
  const auto batch = static_cast<double>(task.batch);
  for (size_t r = 0; r < by_rank.size(); ++r) {
    for (const Shard& s : by_rank[r]) {
      const EmbeddingTable& table = task.tables[static_cast<size_t>(s.table)];
      // Of all pooled vectors: one for each input.
      const auto columns = static_cast<double>(s.columns * table.vectors());
      if (s.kind == PlacementKind::kDataParallel) {
        work.ranks[r].lookup_count += batch * table.pooling / static_cast<double>(task.gpus);
        if (r == 0) {
          traffic.copied_bytes += static_cast<double>(table.weight_bytes().count());
          work.copied_parameters += table.rows * table.dim;
        }
        continue;
      }
      const double pooling = s.rows == table.rows ? table.pooling : lookups.PoolingOf(s);
      work.ranks[r].lookup_count += batch * pooling;
      traffic.ranks[r].lengths += batch * kLengthBytes;
      traffic.ranks[r].indices += batch * pooling * kIndexBytes;
      const bool first_row = s.first_row == 0;
      if (s.kind == PlacementKind::kRow) {
        if (first_row) traffic.row_columns += columns;
      } else if (s.kind == PlacementKind::kTableRow) {
        if (first_row) traffic.node_columns[r / static_cast<size_t>(ranks_per_node)] += columns;
      } else {
        traffic.ranks[r].columns += columns;
      }
    }
  }
  return traffic;
}

// What each rank puts into and gets from all collectives of the tables. Backward every step is the
// forward one turned round.
void AddAllBytes(const ShardingTask& task, const Traffic& traffic, const RankTraffic& all,
                 int32_t ranks_per_node, PlanWork& work) {
  const auto batch = static_cast<double>(task.batch);
  const auto local = static_cast<double>(task.local_batch());
  double all_nodes = 0;
  for (const double columns : traffic.node_columns) all_nodes += columns;
  for (size_t r = 0; r < work.ranks.size(); ++r) {
    const RankTraffic& own = traffic.ranks[r];
    const double node = traffic.node_columns[r / static_cast<size_t>(ranks_per_node)];
    const double samples_of_node = batch / ranks_per_node;
    const double forward =
        batch * own.columns + batch * traffic.row_columns + batch * node + samples_of_node * node;
    const double backward = local * all.columns + local * traffic.row_columns +
                            samples_of_node * node + local * all_nodes;
    const double vectors = (forward + backward) * kPooledBytes + traffic.copied_bytes;
    const double ids_sent = work.shape.indices ? (all.lengths + all.indices) / task.gpus : 0;
    const double ids_received = work.shape.indices ? own.lengths + own.indices : 0;
    work.ranks[r].all_sent = Rounded(vectors + ids_sent);
    work.ranks[r].all_received = Rounded(vectors + ids_received);
  }
}

}  // namespace

std::string_view Name(CommStep step) {
  static constexpr std::array<std::string_view, 12> kNames = {"lengths all-to-all",
                                                              "indices all-to-all",
                                                              "pooled all-to-all",
                                                              "row reduce-scatter",
                                                              "table-row reduce-scatter",
                                                              "table-row all-to-all",
                                                              "pooled gradient all-to-all",
                                                              "row gradient all-gather",
                                                              "table-row gradient all-to-all",
                                                              "table-row gradient all-gather",
                                                              "table gradient all-reduce",
                                                              "dense gradient all-reduce"};
  return EnumName(kNames, step);
}

CollectiveOp OpOf(CommStep step) {
  switch (step) {
    case CommStep::kRow:
    case CommStep::kTableRowNode:
      return CollectiveOp::kReduceScatter;
    case CommStep::kRowGradient:
    case CommStep::kTableRowNodeGradient:
      return CollectiveOp::kAllGather;
    case CommStep::kTableGradient:
    case CommStep::kDenseGradient:
      return CollectiveOp::kAllReduce;
    default:
      return CollectiveOp::kAllToAll;
  }
}

CommScope ScopeOf(CommStep step) {
  switch (step) {
    case CommStep::kTableRowNode:
    case CommStep::kTableRowNodeGradient:
      return CommScope::kNode;
    case CommStep::kTableRowAcross:
    case CommStep::kTableRowAcrossGradient:
      return CommScope::kAcross;
    default:
      return CommScope::kWorld;
  }
}

bool PlanShape::Has(CommStep step) const {
  switch (step) {
    case CommStep::kLengths:
    case CommStep::kIndices:
      return indices;
    case CommStep::kPooled:
    case CommStep::kPooledGradient:
      return pooled;
    case CommStep::kRow:
    case CommStep::kRowGradient:
      return row;
    case CommStep::kTableRowNode:
    case CommStep::kTableRowAcross:
    case CommStep::kTableRowAcrossGradient:
    case CommStep::kTableRowNodeGradient:
      return table_row;
    case CommStep::kTableGradient:
      return data_parallel;
    default:
      return true;
  }
}

PlanShape ShapeOf(const ShardingTask& task, const ShardingPlan& plan) {
  PlanShape shape;
  for (const TablePlacement& p : plan.tables) {
    switch (p.kind) {
      case PlacementKind::kRow:
        shape.row = true;
        break;
      case PlacementKind::kTableRow:
        shape.table_row = true;
        break;
      case PlacementKind::kDataParallel:
        shape.data_parallel = true;
        break;
      default:
        shape.pooled = true;
    }
  }
  shape.indices = task.exchange_indices && (shape.pooled || shape.row || shape.table_row);
  return shape;
}

PlanWork WorkOf(const ShardingTask& task, const ShardingPlan& plan, LookupCosts& lookups,
                CollectiveTimes& collectives) {
  PlanWork work;
  work.shape = ShapeOf(task, plan);
  const std::vector<std::vector<Shard>> by_rank = ShardsByRank(task, plan);
  work.ranks.resize(by_rank.size());
  const Traffic traffic = TrafficOf(task, by_rank, collectives.ranks_per_node(), lookups, work);
  const auto batch = static_cast<double>(task.batch);
  const double local = static_cast<double>(task.local_batch());
  // What all ranks receive adds up to what all send, and every rank sends the same: its samples.
  RankTraffic all, most;
  for (size_t r = 0; r < by_rank.size(); ++r) {
    work.ranks[r].lookups = lookups.ModelParallel(by_rank[r]);
    work.ranks[r].table_copies = lookups.DataParallel(by_rank[r]);
    const RankTraffic& t = traffic.ranks[r];
    all = {all.lengths + t.lengths, all.indices + t.indices, all.columns + t.columns};
    most = {std::max(most.lengths, t.lengths), std::max(most.indices, t.indices),
            std::max(most.columns, t.columns)};
  }
  for (size_t r = 0; r < by_rank.size(); ++r) {
    work.ranks[r].sent = Rounded(batch * traffic.ranks[r].columns * kPooledBytes);
    work.ranks[r].received = Rounded(local * all.columns * kPooledBytes);
  }
  AddAllBytes(task, traffic, all, collectives.ranks_per_node(), work);
  const auto set = [&](CommStep step, double bytes) {
    if (!work.shape.Has(step)) return;
    const Bytes rounded = Rounded(bytes);
    work.comm[static_cast<size_t>(step)].push_back(
        collectives.Time(OpOf(step), ScopeOf(step), rounded));
    Bytes& largest = work.bytes[static_cast<size_t>(step)];
    largest = std::max(largest, rounded);
  };
  const double gpus = task.gpus;
  // The larger of bytes sent and received, on the rank where that is largest.
  set(CommStep::kLengths, std::max(most.lengths, all.lengths / gpus));
  set(CommStep::kIndices, std::max(most.indices, all.indices / gpus));
  const double pooled = std::max(batch * most.columns, local * all.columns) * kPooledBytes;
  set(CommStep::kPooled, pooled);
  set(CommStep::kPooledGradient, pooled);
  set(CommStep::kRow, batch * traffic.row_columns * kPooledBytes);
  set(CommStep::kRowGradient, batch * traffic.row_columns * kPooledBytes);
  double widest = 0, all_nodes = 0;
  for (const double columns : traffic.node_columns) {
    set(CommStep::kTableRowNode, batch * columns * kPooledBytes);
    set(CommStep::kTableRowNodeGradient, batch * columns * kPooledBytes);
    widest = std::max(widest, columns);
    all_nodes += columns;
  }
  // Of its node's tables each rank holds the sums of 1 / ranks_per_node of all samples, and gets
  // those of its own samples from every node.
  const double held = batch / collectives.ranks_per_node() * widest;
  const double across = std::max(held, local * all_nodes) * kPooledBytes;
  set(CommStep::kTableRowAcross, across);
  set(CommStep::kTableRowAcrossGradient, across);
  set(CommStep::kTableGradient, traffic.copied_bytes);
  return work;
}

}  // namespace foretrace
