#pragma once

#include "simulator/base/time.h"

namespace foretrace {

// What one clock, or two whose difference is known, can be wrong by.
inline constexpr SimTime kClockNoise = SimTime::FromNs(20'000);

}  // namespace foretrace
