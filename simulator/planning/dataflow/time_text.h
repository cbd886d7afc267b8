#pragma once
// Times of the dataflow commands, which go from microseconds to hours.

#include <fmt/format.h>

#include <cmath>
#include <string>

namespace foretrace {

// In the unit that leaves the least before the point, without exponents: "6.12368 ms".
inline std::string TimeText(double ns, int digits = 6) {
  if (ns >= 1e9 * (std::pow(10, digits) - 0.5)) return fmt::format("{:.0f} s", ns * 1e-9);
  if (ns <= 0 || ns >= 1e9) return fmt::format("{:.{}g} s", ns * 1e-9, digits);
  if (ns >= 1e6) return fmt::format("{:.{}g} ms", ns * 1e-6, digits);
  return fmt::format("{:.{}g} us", ns * 1e-3, digits);
}

}  // namespace foretrace
