#include "simulator/base/nearest_name.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "simulator/base/enum_names.h"

namespace foretrace {

size_t EditDistance(std::string_view a, std::string_view b) {
  // Rows of the table of distances between beginnings of `a` and of `b`; the last three.
  std::vector<size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, above);
    std::swap(above, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

std::string NearestName(std::string_view typed, std::span<const std::string> names) {
  constexpr size_t kLongest = 64;  // of what somebody types
  if (typed.size() > kLongest) return "";
  const std::string* nearest = nullptr;
  size_t least = 0;
  const std::string lower = LowerCase(typed);
  for (const std::string& name : names) {
    const size_t distance = std::min(EditDistance(typed, name), EditDistance(lower, name));
    if (3 * distance > std::max(typed.size(), name.size())) continue;
    if (nearest != nullptr && distance >= least) continue;
    nearest = &name;
    least = distance;
  }
  return nearest == nullptr ? "" : *nearest;
}

}  // namespace foretrace
