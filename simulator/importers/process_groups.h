#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// Reads `groups: [{name: "1", ranks: [0, 1], description: "data parallel"}]` and `exchanges: [[0,
// 4], [1, 5]]`, of which each becomes a group named kExchangeGroup. Errors name the file and the
// line.
absl::StatusOr<std::vector<ProcessGroup>> LoadProcessGroups(const std::string& path);

// Gives `store` the groups that `file` holds, if any; they must be of its communicators.
absl::Status AddUserGroups(const std::string& file, std::vector<ProcessGroup> groups,
                           TraceStore& store);

}  // namespace foretrace
