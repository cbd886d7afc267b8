#pragma once

#include <string_view>
#include <vector>

#include "simulator/trace/rank_trace.h"

namespace foretrace::pytorch_et {

// Adds the groups in JSON text as PyTorch writes it: [{"pg_name": "0", "pg_desc": ..., "ranks": [],
// "group_size": 2}]; ranks may also be a map from rank to rank within the group. A group without
// ranks has all of them, and its size is the size of the job. Text that does not parse, or a group
// without a name, is passed over.
void AddProcessGroups(std::string_view json_text, std::vector<ProcessGroup>& groups,
                      int32_t& world_size);

}  // namespace foretrace::pytorch_et
