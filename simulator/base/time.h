#pragma once
// Simulated time. One integer type for instants and durations, so that sums are exact and results
// are the same bits on every machine and for every number of threads.

#include <cmath>
#include <compare>
#include <cstdint>
#include <limits>

namespace foretrace {

// Picoseconds in an int64: +-106 days. Doubles enter only through the From* functions, which round
// once to the nearest picosecond.
class SimTime {
 public:
  constexpr SimTime() = default;
  static constexpr SimTime FromPs(int64_t ps) { return SimTime(ps); }
  static constexpr SimTime FromNs(int64_t ns) { return SimTime(ns * 1000); }
  static SimTime FromUs(double us) { return SimTime(std::llround(us * 1e6)); }
  static SimTime FromSeconds(double s) { return SimTime(std::llround(s * 1e12)); }
  static constexpr SimTime Max() { return SimTime(std::numeric_limits<int64_t>::max()); }
  static constexpr SimTime Min() { return SimTime(std::numeric_limits<int64_t>::min()); }

  constexpr int64_t ps() const { return ps_; }
  constexpr double us() const { return static_cast<double>(ps_) * 1e-6; }
  constexpr double seconds() const { return static_cast<double>(ps_) * 1e-12; }

  constexpr auto operator<=>(const SimTime&) const = default;
  constexpr SimTime operator-() const { return SimTime(-ps_); }
  constexpr SimTime& operator+=(SimTime o) {
    ps_ += o.ps_;
    return *this;
  }
  constexpr SimTime& operator-=(SimTime o) {
    ps_ -= o.ps_;
    return *this;
  }
  friend constexpr SimTime operator+(SimTime a, SimTime b) { return a += b; }
  friend constexpr SimTime operator-(SimTime a, SimTime b) { return a -= b; }
  // Scales and rounds to the nearest picosecond.
  SimTime ScaledBy(double factor) const {
    return SimTime(std::llround(static_cast<double>(ps_) * factor));
  }

 private:
  explicit constexpr SimTime(int64_t ps) : ps_(ps) {}
  int64_t ps_ = 0;
};

}  // namespace foretrace
