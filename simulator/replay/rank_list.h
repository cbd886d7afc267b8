#pragma once

#include <set>
#include <string_view>

#include "absl/status/statusor.h"

namespace foretrace {

// "0,2,4-7" to its numbers; `what` names it in messages. Errors: anything else, or more than a
// million.
absl::StatusOr<std::set<int32_t>> ParseNumberList(std::string_view what, std::string_view text);

}  // namespace foretrace
