#pragma once
// Summary statistics used by reports, calibration and validation alike.

#include <cstddef>
#include <span>
#include <vector>

namespace foretrace {

// Linear interpolation between order statistics; q in [0, 1]; 0 for an empty input.
double Quantile(std::vector<double> values, double q);

// Errors of predictions, all in per cent of the measured value.
struct ErrorSummary {
  size_t count = 0;
  // Geometric mean of absolute percentage errors, each floored at 0.04 % as the multi-GPU paper's
  // authors do, so that an exact hit does not make the mean zero.
  double gmae_percent = 0;
  double mape_percent = 0;
  double std_percent = 0;  // standard deviation of the absolute errors
  double min_percent = 0;
  double max_percent = 0;
};

// `signed_errors` are (predicted - measured) / measured, as fractions.
ErrorSummary SummarizeErrors(std::span<const double> signed_errors);

}  // namespace foretrace
