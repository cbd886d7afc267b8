#pragma once
// A side file `{"1": [0, 1], "2": [2, 3]}`: group name to members in group order, as symbolic
// generators write it next to the traces.

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/importers/io/byte_source.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// `source` names the file in errors.
absl::StatusOr<std::vector<ProcessGroup>> ParseProcessGroupTable(std::string_view json,
                                                                 std::string_view source);
// Likewise from an input, which is read to its end.
absl::StatusOr<std::vector<ProcessGroup>> ReadProcessGroupTable(ByteSource& input);
// Whether `prefix`, the first bytes of a file, begins like such a table.
bool LooksLikeProcessGroupTable(std::string_view prefix);

}  // namespace foretrace
