#pragma once
// Whole sizes as the real numbers that models work with, and back.

#include <algorithm>
#include <cstdint>

#include "simulator/base/units.h"

namespace foretrace {

constexpr double AsDouble(int64_t n) { return static_cast<double>(n); }

// Rounded down. Beyond 1e18, which no device has, that much: a few of them can still be added up.
constexpr Bytes WholeBytes(double bytes) {
  return Bytes(static_cast<int64_t>(std::min(bytes, 1e18)));
}

}  // namespace foretrace
