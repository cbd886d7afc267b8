#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace foretrace {

// The name of an enumerator, from a table in enumerator order; the enum ends in kCount.
template <size_t N, typename E>
std::string_view EnumName(const std::array<std::string_view, N>& names, E value) {
  static_assert(N == static_cast<size_t>(E::kCount));
  const auto index = static_cast<size_t>(value);
  return index < N ? names[index] : "invalid";
}

// ASCII only.
std::string LowerCase(std::string_view text);

}  // namespace foretrace
