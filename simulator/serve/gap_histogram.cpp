#include "simulator/serve/gap_histogram.h"

#include <algorithm>
#include <cmath>

#include "simulator/serve/metrics.h"

namespace foretrace::serve {
namespace {

constexpr double kRatio = 1.005;
constexpr double kFirstUs = 0.1;  // shorter gaps count as none

}  // namespace

void GapHistogram::Add(SimTime gap, int32_t tokens) {
  // Tokens that a step makes together follow one another at once.
  const auto at = [](double us) {
    return us <= kFirstUs ? size_t{0}
                          : 1 + static_cast<size_t>(std::log(us / kFirstUs) / std::log(kRatio));
  };
  const size_t index = at(gap.us());
  if (counts_.size() <= index) counts_.resize(index + 1);
  ++counts_[index];
  counts_[0] += tokens - 1;
  count_ += tokens;
  sum_ += RealSeconds(gap.seconds());
  max_ = std::max(max_, gap);
}

RealSeconds GapHistogram::Quantile(double q) const {
  const double rank = q * static_cast<double>(count_ - 1);
  double below = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    below += static_cast<double>(counts_[i]);
    if (below <= rank) continue;
    if (i == 0) return {};
    return RealSeconds(kFirstUs * std::pow(kRatio, static_cast<double>(i) - 0.5) * 1e-6);
  }
  return RealSeconds(max_.seconds());
}

Distribution GapHistogram::Describe() const {
  if (count_ == 0) return {};
  return {sum_ / static_cast<double>(count_),
          Quantile(0.5),
          Quantile(0.9),
          Quantile(0.95),
          Quantile(0.99),
          RealSeconds(max_.seconds()),
          static_cast<int64_t>(count_)};
}

}  // namespace foretrace::serve
