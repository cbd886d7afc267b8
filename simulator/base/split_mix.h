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

// The numbers after a seed, one after the other.
class SplitMixSequence {
 public:
  explicit constexpr SplitMixSequence(uint64_t seed) : state_(seed) {}
  constexpr uint64_t Next() {
    const uint64_t bits = SplitMix64(state_);
    state_ += kSplitMixStep;
    return bits;
  }
  // In [0, 1).
  constexpr double Uniform() { return UnitInterval(Next()); }
  // In [0, n), n positive; by multiplication and shift, whose bias is at most n / 2^64.
  constexpr int64_t Below(int64_t n) {
    return static_cast<int64_t>(
        (static_cast<unsigned __int128>(Next()) * static_cast<unsigned __int128>(n)) >> 64);
  }

 private:
  uint64_t state_;
};

}  // namespace foretrace
