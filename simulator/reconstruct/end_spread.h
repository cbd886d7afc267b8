#pragma once
// How far apart the ends of kernels lie that may have met; a detail of the matching of ranks.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "simulator/base/time.h"

namespace foretrace {

// Ends of kernels that met agree to this, whatever the clock's resolution.
inline constexpr SimTime kEndResolution = SimTime::FromNs(5'000);
// Ends of streams that met differ by less in the median; those of others by much more.
inline constexpr SimTime kFarthestEnds = SimTime::FromNs(200'000);
// With fewer differences a spread says nothing, and the distance itself has to do.
inline constexpr size_t kEnoughForSpread = 5;

// Of picoseconds, at least one; the upper of two in the middle.
SimTime Median(std::vector<int64_t> values);

struct EndSpread {
  SimTime distance;  // median of the differences, about `offset`, without their signs
  SimTime offset;    // their median where there are enough: clocks may differ; else zero
};
// `differences` in picoseconds, at least one. `one_clock`: no offset.
EndSpread SpreadOfEnds(std::vector<int64_t> differences, bool one_clock = false);

}  // namespace foretrace
