#pragma once
// The models that a sharding task names: its platform and what is calibrated for it.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/sharding/evaluator.h"

namespace foretrace {

struct LoadedShardingModels {
  ShardingModels models;
  // What the durations of lookups, dense kernels and collectives rest on, one line each.
  std::vector<std::string> notes;
};

absl::StatusOr<LoadedShardingModels> LoadShardingModels(const ShardingTask& task);

}  // namespace foretrace
