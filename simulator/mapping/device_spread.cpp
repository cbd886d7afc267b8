#include "simulator/mapping/device_spread.h"

#include <cmath>

namespace foretrace {

// E = integral over x > 0 of 1 - F(x)^n, less that over x < 0 of F(x)^n. The trapezoidal rule on
// functions this smooth is exact to 1e-9 at this step.
double ExpectedMaximum(int64_t count) {
  if (count <= 1) return 0;
  constexpr double kStep = 0.125, kEnd = 10;
  const auto n = static_cast<double>(count);
  const auto all_below = [&](double x) {
    return std::pow(0.5 * std::erfc(-x / std::sqrt(2.0)), n);
  };
  double sum = 0.5 * (1 - 2 * all_below(0));
  for (double x = kStep; x < kEnd; x += kStep) sum += 1 - all_below(x) - all_below(-x);
  return sum * kStep;
}

double SlowestDevice(const ClusterParameters& cluster, int64_t devices) {
  if (cluster.sustained <= FlopRate()) return 1;
  return 1 + cluster.device_spread * ExpectedMaximum(devices);
}

}  // namespace foretrace
