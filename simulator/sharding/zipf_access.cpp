#include "simulator/sharding/zipf_access.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "simulator/base/check.h"

namespace foretrace {
namespace {

// Integral of x^-s from a to b.
double Mass(double a, double b, double s) {
  if (std::abs(s - 1) < 1e-9) return std::log(b / a);
  return (std::pow(b, 1 - s) - std::pow(a, 1 - s)) / (1 - s);
}

struct RowGroup {
  double count = 0;
  double mass = 0;  // of all its rows
};

// Rows in groups of nearly equal popularity: singly at the head, then 5 % wider each, whose mass is
// that of the interval around their ranks. (Around the first rank alone that would be up to a sixth
// too much, for the density is convex.)
std::vector<RowGroup> GroupsOf(double rows, double exponent) {
  std::vector<RowGroup> groups;
  for (double first = 1; first <= rows;) {
    const double last = std::min(rows, std::max(first, std::floor(first * 1.05)));
    groups.push_back({last - first + 1, last > first ? Mass(first - 0.5, last + 0.5, exponent)
                                                     : std::pow(first, -exponent)});
    first = last + 1;
  }
  return groups;
}

}  // namespace

TableAccess ZipfAccess(int64_t lookups, int64_t rows, double exponent) {
  FORETRACE_CHECK(rows > 0 && exponent >= 0);
  TableAccess access;
  access.lookups = lookups;
  if (lookups <= 0) return access;
  const std::vector<RowGroup> groups = GroupsOf(static_cast<double>(rows), exponent);
  double total = 0;
  for (const RowGroup& group : groups) total += group.mass;
  std::array<double, kReuseBins> by_bin = {};
  double unique = 0;
  for (const auto& [count, mass] : groups) {
    const double rate = static_cast<double>(lookups) * mass / total / count;
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
  }
  for (int b = 0; b < kReuseBins; ++b) {
    access.reuse.fractions[static_cast<size_t>(b)] =
        unique > 0 ? by_bin[static_cast<size_t>(b)] / unique : 0;
  }
  access.unique_rows = std::clamp<int64_t>(std::llround(unique), 1, std::min(lookups, rows));
  return access;
}

}  // namespace foretrace
