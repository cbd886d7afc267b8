#pragma once

#include <set>
#include <string_view>

#include "absl/status/statusor.h"

namespace foretrace {

// "0,2,4-7" to its numbers. Errors: anything else, or more than a million ranks.
absl::StatusOr<std::set<int32_t>> ParseRankList(std::string_view text);

}  // namespace foretrace
