#pragma once
// How far recorded times may contradict each other before they contradict a rule.

#include "simulator/base/time.h"

namespace foretrace {

// Recordings of older profilers have microsecond resolution: times of one clock that differ by less
// are the same.
inline constexpr SimTime kClockResolution = SimTime::FromNs(1'000);

// What one clock, or two whose difference is known, can be wrong by. The clocks of CPU and device
// are two: a call that returned more than this before work ended did not wait for it.
inline constexpr SimTime kClockNoise = SimTime::FromNs(20'000);

}  // namespace foretrace
