#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace foretrace {

// The name of an enumerator, from a table in enumerator order; the enum ends in kCount.
template <size_t N, typename E>
std::string_view EnumName(const std::array<std::string_view, N>& names, E value) {
  static_assert(N == static_cast<size_t>(E::kCount));
  const auto index = static_cast<size_t>(value);
  return index < N ? names[index] : "invalid";
}

// Of all enumerators of E, in order.
template <typename E>
std::vector<std::string_view> EnumNames() {
  std::vector<std::string_view> names;
  for (int i = 0; i < static_cast<int>(E::kCount); ++i) names.push_back(Name(static_cast<E>(i)));
  return names;
}

// The enumerator of that name; nullopt: none has it.
template <typename E>
std::optional<E> ParseEnum(std::string_view name) {
  for (int i = 0; i < static_cast<int>(E::kCount); ++i) {
    if (Name(static_cast<E>(i)) == name) return static_cast<E>(i);
  }
  return std::nullopt;
}

// ASCII only.
std::string LowerCase(std::string_view text);

}  // namespace foretrace
