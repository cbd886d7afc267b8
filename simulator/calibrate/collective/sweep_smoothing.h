#pragma once
// Cleans the measured sizes of one collective before its knots are set: outliers, dense or noisy
// stretches, and times that fall with size.

#include <functional>
#include <span>
#include <vector>

namespace foretrace {

struct SizeTime {
  double bytes = 0;
  double time_us = 0;
};

struct SmoothedPoint {
  double log2_bytes = 0;
  double log_time = 0;
  double weight = 1;  // measurements behind it
};

// ln of a closed form's time at a number of bytes. Statistics are of the residual to it, so that
// the trend within a window does not count as scatter. Empty: a constant.
using LogForm = std::function<double(double bytes)>;

// Leaves out sizes that took more than twice as long as both the next smaller and the next larger
// one: something else ran. Whatever protocol is chosen, the larger size shows what the smaller one
// could have had. Of fewer than five sizes none is left out. Ascending in size.
std::vector<SizeTime> WithoutSpikes(std::span<const SizeTime> points);

// Leaves out points that stand out from their neighbours: residual further from the median of up to
// five neighbours on either side within 3/4 octave than three (robust) standard deviations and 5 %.
// Windows of fewer than seven points leave out nothing. Ascending in size.
std::vector<SizeTime> WithoutOutliers(std::span<const SizeTime> points, const LogForm& log_form);

// Geometric means of neighbouring sizes: of those within 1/16 octave, and where repeats scatter, of
// those within up to 1/4 octave until the mean's standard error is below 1 %. Ascending in size.
std::vector<SmoothedPoint> MergeNeighbours(std::span<const SizeTime> points,
                                           const LogForm& log_form);

// Weighted isotonic regression of log time (pool adjacent violators).
void MakeNonDecreasing(std::vector<SmoothedPoint>& points);

}  // namespace foretrace
