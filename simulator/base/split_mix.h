#pragma once
// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): numbers that are the same on every machine,
// which those of the standard library's distributions are not.

#include <cstdint>

namespace foretrace {

// What a generator's state grows by with each number.
inline constexpr uint64_t kSplitMixStep = 0x9e3779b97f4a7c15;

// The number after the state `x`: well-mixed bits of a counter.
constexpr uint64_t SplitMix64(uint64_t x) {
  x += kSplitMixStep;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Of such bits, a number in [0, 1).
constexpr double UnitInterval(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

}  // namespace foretrace
