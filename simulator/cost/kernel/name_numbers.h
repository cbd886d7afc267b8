#pragma once
// Numbers in the names of kernels.

#include <cstdint>
#include <optional>
#include <string_view>

namespace foretrace {

// Takes the number of at most so many digits off the front of `text`; nullopt: there is none, or it
// has more.
inline std::optional<int64_t> TakeNumber(std::string_view& text, size_t most_digits) {
  int64_t number = 0;
  size_t digits = 0;
  while (digits < text.size() && digits <= most_digits && text[digits] >= '0' &&
         text[digits] <= '9') {
    number = 10 * number + (text[digits++] - '0');
  }
  text.remove_prefix(digits);
  return digits == 0 || digits > most_digits ? std::nullopt : std::optional(number);
}

}  // namespace foretrace
