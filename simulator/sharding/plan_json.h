#pragma once
// Plans as JSON in the terms of torchrec: for each table its sharding_type, compute_kernel, ranks
// and sharding_spec (the shards of an EnumerableShardingSpec).

#include <string>

#include "absl/status/statusor.h"
#include "simulator/sharding/plan.h"

namespace foretrace {

// {"sharder": ..., "plan": {table: ParameterSharding}}. `ranks_per_node` numbers devices within
// nodes.
std::string PlanJson(const ShardingTask& task, const ShardingPlan& plan, int32_t ranks_per_node);

// Reads what PlanJson writes, or the plan's mapping alone. Errors: not JSON, tables that the task
// does not have or that the plan lacks, unknown types, shards that differ from what the placement
// implies.
absl::StatusOr<ShardingPlan> ReadPlanJson(const ShardingTask& task, const std::string& file);
absl::StatusOr<ShardingPlan> ParsePlanJson(const ShardingTask& task, const std::string& text,
                                           const std::string& file);

}  // namespace foretrace
