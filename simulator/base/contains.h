#pragma once
// Which of several parts a text has.

#include <algorithm>
#include <initializer_list>
#include <string_view>

namespace foretrace {

inline bool ContainsAny(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::ranges::any_of(parts, [&](std::string_view p) { return text.find(p) != text.npos; });
}

}  // namespace foretrace
