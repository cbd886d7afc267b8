#pragma once
// Strong types for the quantities that cost models exchange. Each holds SI base units; the named
// constructors and readers say which unit a bare number is in.

#include <compare>
#include <cstdint>

#include "simulator/base/time.h"

namespace foretrace {

class Bytes {
 public:
  constexpr Bytes() = default;
  explicit constexpr Bytes(int64_t n) : n_(n) {}
  constexpr int64_t count() const { return n_; }
  constexpr auto operator<=>(const Bytes&) const = default;
  constexpr Bytes& operator+=(Bytes o) {
    n_ += o.n_;
    return *this;
  }
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return a += b; }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return Bytes(a.n_ - b.n_); }
  friend constexpr Bytes operator*(Bytes a, int64_t k) { return Bytes(a.n_ * k); }

 private:
  int64_t n_ = 0;
};

// Floating-point operations; a multiply-add counts as two.
class Flop {
 public:
  constexpr Flop() = default;
  explicit constexpr Flop(double n) : n_(n) {}
  constexpr double count() const { return n_; }
  constexpr auto operator<=>(const Flop&) const = default;
  constexpr Flop& operator+=(Flop o) {
    n_ += o.n_;
    return *this;
  }
  friend constexpr Flop operator+(Flop a, Flop b) { return a += b; }

 private:
  double n_ = 0;
};

class Bandwidth {
 public:
  constexpr Bandwidth() = default;
  static constexpr Bandwidth BytesPerSecond(double v) { return Bandwidth(v); }
  // 1 GB/s = 1e9 bytes per second.
  static constexpr Bandwidth GBps(double v) { return Bandwidth(v * 1e9); }
  // 1 Gbit/s = 1.25e8 bytes per second.
  static constexpr Bandwidth Gbitps(double v) { return Bandwidth(v * 1.25e8); }
  constexpr double bytes_per_second() const { return v_; }
  constexpr double gbps() const { return v_ * 1e-9; }
  constexpr auto operator<=>(const Bandwidth&) const = default;
  friend constexpr Bandwidth operator*(double k, Bandwidth w) { return Bandwidth(k * w.v_); }
  friend constexpr Bandwidth operator*(Bandwidth w, double k) { return k * w; }
  friend constexpr Bandwidth operator/(Bandwidth w, double k) { return Bandwidth(w.v_ / k); }
  friend constexpr double operator/(Bandwidth a, Bandwidth b) { return a.v_ / b.v_; }

 private:
  explicit constexpr Bandwidth(double v) : v_(v) {}
  double v_ = 0;
};

class FlopRate {
 public:
  constexpr FlopRate() = default;
  static constexpr FlopRate PerSecond(double v) { return FlopRate(v); }
  static constexpr FlopRate Teraflops(double v) { return FlopRate(v * 1e12); }
  constexpr double per_second() const { return v_; }
  constexpr auto operator<=>(const FlopRate&) const = default;

 private:
  explicit constexpr FlopRate(double v) : v_(v) {}
  double v_ = 0;
};

// The divisor must be positive.
inline SimTime operator/(Bytes b, Bandwidth w) {
  return SimTime::FromSeconds(static_cast<double>(b.count()) / w.bytes_per_second());
}
inline SimTime operator/(Flop f, FlopRate r) {
  return SimTime::FromSeconds(f.count() / r.per_second());
}

}  // namespace foretrace
