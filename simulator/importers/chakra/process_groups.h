#pragma once
// Process groups as declared beside or inside Chakra traces.

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/importers/io/byte_source.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// A side file `{"1": [0, 1], "2": [2, 3]}`: group name to members in group order, as symbolic
// generators write it next to the traces. `source` names the file in errors.
absl::StatusOr<std::vector<ProcessGroup>> ParseProcessGroupTable(std::string_view json,
                                                                 std::string_view source);
// Likewise from an input, which is read to its end.
absl::StatusOr<std::vector<ProcessGroup>> ReadProcessGroupTable(ByteSource& input);
// Whether `prefix`, the first bytes of a file, begins like such a table.
bool LooksLikeProcessGroupTable(std::string_view prefix);

namespace chakra {

// PyTorch's list of groups, `[{"pg_name": "0", "pg_desc": "default_pg", "ranks": [0, 1], ...}]`,
// with whatever is around it: execution traces quote it as a string in a list. Appends to `groups`;
// false when there is no such list or it is malformed.
bool ParsePytorchProcessGroups(std::string_view text, std::vector<ProcessGroup>& groups);

}  // namespace chakra
}  // namespace foretrace
