#include "simulator/engine/arrival_spread.h"

#include <algorithm>
#include <cmath>

#include "simulator/base/check.h"

namespace foretrace {
namespace {

constexpr double kTailShare = 0.25;
constexpr size_t kLeastInTail = 4;
constexpr double kLateCases = 0.05;

// Sum of (1 - (1 - p)^j) / j, j to n: the mean of the largest of n draws beyond the threshold that
// a share p of them passes, in units of the exponential's mean. p = 1: the harmonic number.
double TailMean(int32_t n, double p) {
  double sum = 0, below = 1;
  for (int32_t j = 1; j <= n; ++j) {
    below *= 1 - p;
    sum += (1 - below) / j;
  }
  return sum;
}

// By how much the largest of n draws from `sorted` and `least` exceeds `least`, in the mean.
double LargestAbove(const std::vector<double>& sorted, double least, int32_t n) {
  const auto m = static_cast<double>(sorted.size());
  double mean = 0;
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i] <= least) continue;
    const double from = std::max(least, i == 0 ? least : sorted[i - 1]);
    mean += (1 - std::pow(static_cast<double>(i) / m, n)) * (sorted[i] - from);
  }
  return mean;
}

}  // namespace

// Above `threshold`, which a share `passed` of the draws passes, exponential.
struct ArrivalSpread::Tail {
  double threshold = 0;
  double passed = 1;
  double mean = 0;
  std::vector<double> below;  // sorted; the threshold in place of what passes it

  // The mean by which the largest of n exceeds `least`, where it does.
  double Above(double least, int32_t n) const {
    if (mean <= 0) return LargestAbove(below, least, n);
    const double beyond = std::max(least - threshold, 0.0);
    return LargestAbove(below, least, n) + mean * TailMean(n, passed * std::exp(-beyond / mean));
  }
  // Which the largest of n passes in a share `cases` of them.
  double LargestPassedIn(double cases, int32_t n) const {
    const double beyond = -std::expm1(std::log1p(-cases) / n);
    if (beyond < passed || below.empty()) return threshold + mean * std::log(passed / beyond);
    const auto at = static_cast<size_t>((1 - beyond) * static_cast<double>(below.size()));
    return below[std::min(at, below.size() - 1)];
  }
};

void ArrivalSpread::Add(std::span<const SimTime> arrivals) {
  if (arrivals.size() < 2) return;
  const SimTime first = *std::ranges::min_element(arrivals);
  double mean = 0;
  for (const SimTime t : arrivals) mean += (t - first).us() / static_cast<double>(arrivals.size());
  // One of n draws is its own share of their mean, which shortens tails by 1/n.
  const auto n = static_cast<double>(arrivals.size());
  for (const SimTime t : arrivals) {
    offsets_.push_back(((t - first).us() - mean) * n / (n - 1));
  }
}

void ArrivalSpread::AddWait(SimTime wait, int32_t members) {
  if (members < 2) return;
  // The last of n exponential arrivals comes (H_n - 1) scales after their mean.
  scales_ += wait.us() / (TailMean(members, 1) - 1);
  ++waits_;
}

bool ArrivalSpread::shown() const {
  return waits_ > 0 || std::ranges::any_of(offsets_, [](double offset) { return offset != 0; });
}

ArrivalSpread::Tail ArrivalSpread::TailOf(const std::vector<double>& sorted) const {
  const size_t m = sorted.size();
  const auto quarter = static_cast<size_t>(kTailShare * static_cast<double>(m));
  const size_t passing = std::min(std::max(quarter, kLeastInTail), m - 1);
  Tail tail;
  tail.threshold = sorted[m - passing - 1];
  tail.passed = static_cast<double>(passing) / static_cast<double>(m);
  tail.below = sorted;
  for (size_t i = m - passing; i < m; ++i) {
    tail.mean += (sorted[i] - tail.threshold) / static_cast<double>(passing);
    tail.below[i] = tail.threshold;
  }
  return tail;
}

ArrivalSpread::Later ArrivalSpread::After(SimTime last, int32_t more) const {
  FORETRACE_CHECK(more >= 0);
  if (more == 0 || !shown()) return {};
  const auto later = [](double us) { return SimTime::FromUs(std::max(us, 0.0)); };
  Later out;
  Tail tail;
  if (!offsets_.empty()) {
    std::vector<double> sorted = offsets_;
    std::ranges::sort(sorted);
    tail = TailOf(sorted);
  } else {
    // Exponential from the earliest on, which is one scale before the mean.
    tail.mean = std::max(scales_ / static_cast<double>(waits_), 0.0);
    tail.threshold = -tail.mean;
  }
  out.expected = later(tail.Above(last.us(), more));
  out.late = later(tail.LargestPassedIn(kLateCases, more) - last.us());
  return out;
}

}  // namespace foretrace
