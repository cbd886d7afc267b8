#include "simulator/replay/rank_list.h"

#include <charconv>

#include "simulator/base/error.h"
#include "simulator/base/utf8.h"

namespace foretrace {

absl::StatusOr<std::set<int32_t>> ParseNumberList(std::string_view what, std::string_view text) {
  std::set<int32_t> numbers;
  const std::string_view whole = text;
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  while (at < end) {
    int32_t low = 0;
    auto [next, error] = std::from_chars(at, end, low);
    int32_t high = low;
    if (error == std::errc() && next < end && *next == '-') {
      const auto [last, e] = std::from_chars(next + 1, end, high);
      next = last;
      error = e;
    }
    const bool separated = next == end || (*next == ',' && next + 1 < end);
    if (error != std::errc() || low < 0 || high < low || high - low > 1'000'000 || !separated) {
      return InvalidInput("{}: \"{}\" is not a list of numbers; expected e.g. 0,2,4-7", what,
                          Excerpt(whole, 60));
    }
    for (int32_t r = low; r <= high; ++r) {
      if (!numbers.insert(r).second) return InvalidInput("{}: {} is given twice", what, r);
    }
    at = next == end ? end : next + 1;
  }
  if (numbers.empty()) return InvalidInput("{}: an empty list; expected e.g. 0,2,4-7", what);
  return numbers;
}

}  // namespace foretrace
