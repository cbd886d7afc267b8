#pragma once
// "1 wait", "3 waits": counts in sentences.

#include <fmt/format.h>

#include <concepts>
#include <string>
#include <string_view>

namespace foretrace {

// `many`: where that is not `one` with an s.
template <std::integral Count>
std::string Counted(Count count, std::string_view one, std::string_view many = {}) {
  if (count == 1) return fmt::format("1 {}", one);
  return many.empty() ? fmt::format("{} {}s", count, one) : fmt::format("{} {}", count, many);
}

}  // namespace foretrace
