#include "simulator/cost/embedding/expected_reuse.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace foretrace {
namespace {

// Chance that a Poisson variable of this mean is below `count`: the regularised upper incomplete
// gamma function Q(count, mean). Summed for small means, by the normal approximation with
// continuity correction for large ones (error below 0.5 % from a mean of 200 on).
double PoissonBelow(double mean, double count) {
  constexpr double kLarge = 200;
  if (mean > kLarge) {
    return 0.5 * std::erfc(-(count - 0.5 - mean) / std::sqrt(2 * mean));
  }
  double term = std::exp(-mean), sum = 0;
  for (double k = 0; k < count && (k <= mean || term > 1e-18); ++k) {
    sum += term;
    term *= mean / (k + 1);
  }
  return std::min(sum, 1.0);
}

// Adds the expected rows by bin among `rows` rows that are each accessed `mean` times on average.
void AddRows(double rows, double mean, std::array<double, kReuseBins>& by_bin) {
  double below = PoissonBelow(mean, 1);
  for (int bin = 1; bin < kReuseBins; ++bin) {
    const double up_to = bin == kReuseBins - 1 ? 1.0 : PoissonBelow(mean, std::ldexp(1.0, bin));
    by_bin[static_cast<size_t>(bin)] += rows * std::max(0.0, up_to - below);
    below = up_to;
  }
}

ExpectedAccess Normalised(double lookups, const std::array<double, kReuseBins>& by_bin) {
  ExpectedAccess access;
  access.lookups = lookups;
  for (double rows : by_bin) access.unique_rows += rows;
  if (access.unique_rows <= 0) return access;
  for (size_t b = 0; b < by_bin.size(); ++b) {
    access.reuse.fractions[b] = by_bin[b] / access.unique_rows;
  }
  return access;
}

}  // namespace

ExpectedAccess UniformAccess(double lookups, double rows) {
  std::array<double, kReuseBins> by_bin = {};
  if (lookups > 0 && rows > 0) AddRows(rows, lookups / rows, by_bin);
  return Normalised(lookups, by_bin);
}

}  // namespace foretrace
