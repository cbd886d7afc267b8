#include "simulator/sharding/zipf_access.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "simulator/base/check.h"

namespace foretrace {
namespace {

// Integral of x^-s from a to b.
double Mass(double a, double b, double s) {
  if (std::abs(s - 1) < 1e-9) return std::log(b / a);
  return (std::pow(b, 1 - s) - std::pow(a, 1 - s)) / (1 - s);
}

}  // namespace

TableAccess ZipfAccess(int64_t lookups, int64_t rows, double exponent) {
  FORETRACE_CHECK(rows > 0 && exponent >= 0);
  TableAccess access;
  access.lookups = lookups;
  if (lookups <= 0) return access;
  // Rows in groups of nearly equal popularity: singly at the head, then 5 % wider each. A row's
  // mass is that of the unit interval around its rank.
  const auto n = static_cast<double>(rows);
  const double total = Mass(0.5, n + 0.5, exponent);
  std::array<double, kReuseBins> by_bin = {};
  double unique = 0;
  for (double first = 1; first <= n;) {
    const double last = std::min(n, std::max(first, std::floor(first * 1.05)));
    const double count = last - first + 1;
    const double rate =
        static_cast<double>(lookups) * Mass(first - 0.5, last + 0.5, exponent) / total / count;
    if (rate > 30) {  // Poisson counts lie within the bin, or at its edge
      by_bin[static_cast<size_t>(ReuseBin(std::llround(rate)))] += count;
      unique += count;
    } else {
      double p = std::exp(-rate);
      for (int k = 1; k <= 100; ++k) {
        p *= rate / k;
        by_bin[static_cast<size_t>(ReuseBin(k))] += count * p;
        unique += count * p;
      }
    }
    first = last + 1;
  }
  for (int b = 0; b < kReuseBins; ++b) {
    access.reuse.fractions[static_cast<size_t>(b)] =
        unique > 0 ? by_bin[static_cast<size_t>(b)] / unique : 0;
  }
  access.unique_rows = std::clamp<int64_t>(std::llround(unique), 1, std::min(lookups, rows));
  return access;
}

}  // namespace foretrace
