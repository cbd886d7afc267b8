#include "simulator/base/statistics.h"

#include <algorithm>
#include <cmath>

namespace foretrace {

double Quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double position = q * static_cast<double>(values.size() - 1);
  const auto low = static_cast<size_t>(position);
  const size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (values[high] - values[low]) * (position - static_cast<double>(low));
}

ErrorSummary SummarizeErrors(std::span<const double> signed_errors) {
  ErrorSummary summary;
  summary.count = signed_errors.size();
  if (signed_errors.empty()) return summary;
  constexpr double kFloor = 4e-4;
  double sum = 0;
  double sum_squares = 0;
  double sum_logs = 0;
  double low = std::abs(signed_errors[0]);
  double high = low;
  for (double signed_error : signed_errors) {
    const double error = std::abs(signed_error);
    sum += error;
    sum_squares += error * error;
    sum_logs += std::log(std::max(error, kFloor));
    low = std::min(low, error);
    high = std::max(high, error);
  }
  const auto n = static_cast<double>(signed_errors.size());
  const double mean = sum / n;
  summary.gmae_percent = 100 * std::exp(sum_logs / n);
  summary.mape_percent = 100 * mean;
  summary.std_percent = 100 * std::sqrt(std::max(0.0, sum_squares / n - mean * mean));
  summary.min_percent = 100 * low;
  summary.max_percent = 100 * high;
  return summary;
}

}  // namespace foretrace
