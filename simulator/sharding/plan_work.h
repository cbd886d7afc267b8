#pragma once
// What a plan makes the job do: the lookups of each rank and the sizes of the collectives.

#include <array>
#include <vector>

#include "simulator/base/estimate.h"
#include "simulator/sharding/collective_times.h"
#include "simulator/sharding/lookup_costs.h"

namespace foretrace {

// The collectives of a sharded iteration, in order of issue within forward and backward.
enum class CommStep : uint8_t {
  kLengths,                 // all-to-all of lookups per sample, before the indices
  kIndices,                 // all-to-all of the indices
  kPooled,                  // all-to-all of pooled vectors of table- and column-wise tables
  kRow,                     // reduce-scatter of partial sums of row-wise tables
  kTableRowNode,            // reduce-scatter within the node of table-row-wise tables, ...
  kTableRowAcross,          // ... then all-to-all between nodes
  kPooledGradient,          // the same backwards: all-to-all,
  kRowGradient,             // all-gather,
  kTableRowAcrossGradient,  // all-to-all between nodes, ...
  kTableRowNodeGradient,    // ... then all-gather within
  kTableGradient,           // all-reduce of data-parallel tables
  kDenseGradient,           // all-reduces of the dense part (DDP buckets)
  kCount,
};
std::string_view Name(CommStep step);
CollectiveOp OpOf(CommStep step);
CommScope ScopeOf(CommStep step);

// Which of the steps a plan has at all. Plans of one shape run the same program.
struct PlanShape {
  bool indices = false;
  bool pooled = false;
  bool row = false;
  bool table_row = false;
  bool data_parallel = false;

  bool operator==(const PlanShape&) const = default;
  int index() const {
    return (indices ? 1 : 0) + (pooled ? 2 : 0) + (row ? 4 : 0) + (table_row ? 8 : 0) +
           (data_parallel ? 16 : 0);
  }
  static constexpr int kCount = 32;
  bool Has(CommStep step) const;
};

struct PlanWork {
  struct Rank {
    LookupTimes lookups;           // model-parallel tables
    LookupTimes table_copies;      // data-parallel tables
    Bytes sent, received;          // in the all-to-all of pooled vectors
    Bytes all_sent, all_received;  // in all collectives of the tables, forward and backward
    double lookup_count = 0;
  };
  PlanShape shape;
  std::vector<Rank> ranks;
  // By step; kTableRowNode and its gradient by node, others once. Steps not in the shape: empty.
  std::array<std::vector<Estimate>, static_cast<size_t>(CommStep::kCount)> comm;
  std::array<Bytes, static_cast<size_t>(CommStep::kCount)> bytes{};  // the largest
  int64_t copied_parameters = 0;                                     // of data-parallel tables
};

PlanShape ShapeOf(const ShardingTask& task, const ShardingPlan& plan);
PlanWork WorkOf(const ShardingTask& task, const ShardingPlan& plan, LookupCosts& lookups,
                CollectiveTimes& collectives);

}  // namespace foretrace
