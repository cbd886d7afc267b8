#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"

namespace foretrace {

// Before the work of a timeline is done: error (a request that cannot be met) where the file would
// pass 500 MB, which no viewer opens, with how to narrow it. `nodes` of the traces that are drawn.
absl::Status CheckTimelineSize(uint64_t nodes, std::string_view path);

}  // namespace foretrace
