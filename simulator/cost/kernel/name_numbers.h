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

// Takes "<a>x<b>", each of at most three digits and at least 1, off the front; false: it is not
// there, and `text` is past what there was of it.
inline bool TakePair(std::string_view& text, int64_t& a, int64_t& b) {
  constexpr size_t kDigits = 3;
  a = TakeNumber(text, kDigits).value_or(0);
  if (a == 0 || !text.starts_with('x')) return false;
  text.remove_prefix(1);
  b = TakeNumber(text, kDigits).value_or(0);
  return b > 0;
}

}  // namespace foretrace
