#include "simulator/reconstruct/end_spread.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace foretrace {

SimTime Median(std::vector<int64_t> values) {
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return SimTime::FromPs(*middle);
}

EndSpread SpreadOfEnds(std::vector<int64_t> differences, bool one_clock) {
  const bool offset_tells = !one_clock && differences.size() >= kEnoughForSpread;
  const SimTime offset = offset_tells ? Median(differences) : SimTime();
  for (int64_t& d : differences) d = std::abs(d - offset.ps());
  return {Median(std::move(differences)), offset};
}

}  // namespace foretrace
