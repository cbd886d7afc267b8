#pragma once
// Times and bytes as real numbers, where SimTime and Bytes would round: costs of one sample of
// many, and figures of publications that are compared to their last digit.

#include <compare>
#include <cstdint>
#include <limits>

#include "simulator/base/time.h"
#include "simulator/base/units.h"

namespace foretrace {

// A real number of a unit, of which a second has kPerSecond. The unit is part of the type, so that
// what is stated and read in it keeps its bits; smaller units cost one rounding, larger ones two
// (of their ratio and of the product), and none are mixed without a conversion.
template <int64_t kPerSecond>
class RealTime {
 public:
  constexpr RealTime() = default;
  explicit constexpr RealTime(double count) : count_(count) {}
  template <int64_t kOther>
  explicit constexpr RealTime(RealTime<kOther> t) : count_(t.template In<kPerSecond>()) {}
  explicit constexpr RealTime(SimTime t)
      : count_(static_cast<double>(t.ps()) * (static_cast<double>(kPerSecond) / 1e12)) {}
  static constexpr RealTime Infinite() { return RealTime(std::numeric_limits<double>::infinity()); }

  template <int64_t kOther>
  constexpr double In() const {
    if constexpr (kOther == kPerSecond) return count_;
    return count_ * (static_cast<double>(kOther) / static_cast<double>(kPerSecond));
  }
  constexpr double seconds() const { return In<1>(); }
  constexpr double ms() const { return In<1'000>(); }
  constexpr double us() const { return In<1'000'000>(); }
  constexpr double ns() const { return In<1'000'000'000>(); }

  constexpr auto operator<=>(const RealTime&) const = default;
  constexpr RealTime& operator+=(RealTime o) {
    count_ += o.count_;
    return *this;
  }
  constexpr RealTime& operator-=(RealTime o) {
    count_ -= o.count_;
    return *this;
  }
  friend constexpr RealTime operator+(RealTime a, RealTime b) { return a += b; }
  friend constexpr RealTime operator-(RealTime a, RealTime b) { return a -= b; }
  friend constexpr RealTime operator*(double k, RealTime t) { return RealTime(k * t.count_); }
  friend constexpr RealTime operator*(RealTime t, double k) { return k * t; }
  friend constexpr RealTime operator/(RealTime t, double k) { return RealTime(t.count_ / k); }
  friend constexpr double operator/(RealTime a, RealTime b) { return a.count_ / b.count_; }

 private:
  double count_ = 0;
};
using RealSeconds = RealTime<1>;
using RealMs = RealTime<1'000>;
using RealUs = RealTime<1'000'000>;
using RealNs = RealTime<1'000'000'000>;

class RealBytes {
 public:
  constexpr RealBytes() = default;
  explicit constexpr RealBytes(double count) : count_(count) {}
  explicit constexpr RealBytes(Bytes b) : count_(static_cast<double>(b.count())) {}
  constexpr double count() const { return count_; }

  constexpr auto operator<=>(const RealBytes&) const = default;
  constexpr RealBytes& operator+=(RealBytes o) {
    count_ += o.count_;
    return *this;
  }
  friend constexpr RealBytes operator+(RealBytes a, RealBytes b) { return a += b; }
  friend constexpr RealBytes operator-(RealBytes a, RealBytes b) {
    return RealBytes(a.count_ - b.count_);
  }
  friend constexpr RealBytes operator*(double k, RealBytes b) { return RealBytes(k * b.count_); }
  friend constexpr RealBytes operator*(RealBytes b, double k) { return k * b; }
  friend constexpr RealBytes operator/(RealBytes b, double k) { return RealBytes(b.count_ / k); }
  friend constexpr double operator/(RealBytes a, RealBytes b) { return a.count_ / b.count_; }

 private:
  double count_ = 0;
};

// Divisors must be positive.
constexpr RealSeconds operator/(RealBytes b, Bandwidth w) {
  return RealSeconds(b.count() / w.bytes_per_second());
}
constexpr Bandwidth operator/(RealBytes b, RealSeconds t) {
  return Bandwidth::BytesPerSecond(b.count() / t.seconds());
}
constexpr RealBytes operator*(Bandwidth w, RealSeconds t) {
  return RealBytes(w.bytes_per_second() * t.seconds());
}

}  // namespace foretrace
