#pragma once
// What systems state are the types of base/. Costs are real numbers, of one sample where many share
// them, so that published figures can be compared to their last digit: RealTime and RealBytes where
// parts of the room and others meet, bare numbers of nanoseconds and bytes within solvers.

#include <compare>

#include "simulator/base/time.h"
#include "simulator/base/units.h"

namespace foretrace::dataflow {

// SimTime would round to picoseconds.
class RealTime {
 public:
  constexpr RealTime() = default;
  static constexpr RealTime Ns(double ns) { return RealTime(ns); }
  constexpr double ns() const { return ns_; }
  constexpr double seconds() const { return ns_ * 1e-9; }
  constexpr auto operator<=>(const RealTime&) const = default;
  constexpr RealTime& operator+=(RealTime o) {
    ns_ += o.ns_;
    return *this;
  }
  friend constexpr RealTime operator+(RealTime a, RealTime b) { return RealTime(a.ns_ + b.ns_); }
  friend constexpr RealTime operator-(RealTime a, RealTime b) { return RealTime(a.ns_ - b.ns_); }
  friend constexpr RealTime operator*(double k, RealTime t) { return RealTime(k * t.ns_); }
  friend constexpr RealTime operator/(RealTime t, double k) { return RealTime(t.ns_ / k); }

 private:
  explicit constexpr RealTime(double ns) : ns_(ns) {}
  double ns_ = 0;
};

class RealBytes {
 public:
  constexpr RealBytes() = default;
  explicit constexpr RealBytes(double count) : count_(count) {}
  constexpr double count() const { return count_; }
  constexpr auto operator<=>(const RealBytes&) const = default;
  friend constexpr RealBytes operator*(double k, RealBytes b) { return RealBytes(k * b.count_); }
  friend constexpr RealBytes operator/(RealBytes b, double k) { return RealBytes(b.count_ / k); }

 private:
  double count_ = 0;
};
inline RealTime operator/(RealBytes b, Bandwidth w) {
  return RealTime::Ns(b.count() / (w.bytes_per_second() / 1e9));
}

// Bytes per nanosecond.
inline double GBps(Bandwidth b) { return b.bytes_per_second() / 1e9; }
inline double NsOf(double bytes, Bandwidth b) { return bytes / GBps(b); }
inline double NsOf(SimTime t) { return static_cast<double>(t.ps()) / 1000; }
inline RealTime Real(SimTime t) { return RealTime::Ns(NsOf(t)); }
inline double CountOf(Bytes b) { return static_cast<double>(b.count()); }

}  // namespace foretrace::dataflow
