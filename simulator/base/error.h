#pragma once
// Errors in the user's words. Formatting is {fmt}: Debian's Abseil is built without
// std::string_view support in StrCat and StrFormat.

#include <fmt/format.h>

#include <utility>

#include "absl/status/status.h"

namespace foretrace {

// Bad input: the CLI prints the message on one line and exits 2. Name file, place, cause, remedy.
template <typename... Args>
absl::Status InvalidInput(fmt::format_string<Args...> format, Args&&... args) {
  return absl::InvalidArgumentError(fmt::format(format, std::forward<Args>(args)...));
}

// A well-formed request that cannot be met (no mapping fits in memory): exit code 3.
template <typename... Args>
absl::Status Infeasible(fmt::format_string<Args...> format, Args&&... args) {
  return absl::FailedPreconditionError(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace foretrace
