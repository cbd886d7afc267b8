#include "simulator/calibrate/collective/sweep_smoothing.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace foretrace {
namespace {

constexpr double kMadToSigma = 1.4826;  // of a normal distribution
constexpr double kMinOutlier = 0.05;
constexpr double kWindowOctaves = 0.75;
constexpr size_t kWindowPoints = 5;  // on either side
constexpr size_t kMinWindow = 7;
constexpr double kFineOctaves = 1.0 / 16;
constexpr double kCoarseOctaves = 1.0 / 4;
constexpr double kMaxStandardError = 0.01;
constexpr double kSpike = 2;
constexpr size_t kSizesOfSpike = 5;  // of fewer, which of them is odd does not show

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  const double high = *middle;
  if (values.size() % 2 == 1) return high;
  return 0.5 * (high + *std::max_element(values.begin(), middle));
}

struct Residual {
  double log2_bytes = 0;
  double value = 0;
};

// Ascending in size, ties in time.
std::vector<SizeTime> Sorted(std::span<const SizeTime> points) {
  std::vector<SizeTime> sorted(points.begin(), points.end());
  std::sort(sorted.begin(), sorted.end(), [](const SizeTime& a, const SizeTime& b) {
    return std::pair(a.bytes, a.time_us) < std::pair(b.bytes, b.time_us);
  });
  return sorted;
}

std::vector<Residual> Residuals(std::span<const SizeTime> points, const LogForm& log_form) {
  std::vector<Residual> residuals;
  residuals.reserve(points.size());
  for (const SizeTime& point : points) {
    const double form = log_form ? log_form(point.bytes) : 0;
    residuals.push_back({std::log2(point.bytes), std::log(point.time_us) - form});
  }
  return residuals;
}

struct LocalScatter {
  double median = 0;
  double sigma = 0;
  size_t count = 0;
};

LocalScatter ScatterAround(const std::vector<Residual>& residuals, size_t center) {
  const double x = residuals[center].log2_bytes;
  size_t begin = center;
  while (begin > 0 && center - begin < kWindowPoints &&
         x - residuals[begin - 1].log2_bytes <= kWindowOctaves) {
    --begin;
  }
  size_t end = center + 1;
  while (end < residuals.size() && end - center <= kWindowPoints &&
         residuals[end].log2_bytes - x <= kWindowOctaves) {
    ++end;
  }
  std::vector<double> values;
  for (size_t i = begin; i < end; ++i) values.push_back(residuals[i].value);
  LocalScatter scatter{Median(values), 0, values.size()};
  for (double& value : values) value = std::abs(value - scatter.median);
  scatter.sigma = kMadToSigma * Median(values);
  return scatter;
}

// Median time of the measurements from `begin` on that have its size; `end`: the first of another.
double TimeOfSize(const std::vector<SizeTime>& sorted, size_t begin, size_t& end) {
  std::vector<double> times;
  for (end = begin; end < sorted.size() && sorted[end].bytes == sorted[begin].bytes; ++end) {
    times.push_back(sorted[end].time_us);
  }
  return Median(std::move(times));
}

}  // namespace

std::vector<SizeTime> WithoutSpikes(std::span<const SizeTime> points) {
  const std::vector<SizeTime> sorted = Sorted(points);
  struct Size {
    size_t begin = 0, end = 0;
    double us = 0;
  };
  std::vector<Size> sizes;
  for (size_t i = 0; i < sorted.size(); i = sizes.back().end) {
    size_t end = i;
    const double us = TimeOfSize(sorted, i, end);
    sizes.push_back({i, end, us});
  }
  if (sizes.size() < kSizesOfSpike) return sorted;
  std::vector<SizeTime> kept;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const bool inner = i > 0 && i + 1 < sizes.size();
    const bool spike = inner && sizes[i].us > kSpike * std::max(sizes[i - 1].us, sizes[i + 1].us);
    if (spike) continue;
    for (size_t k = sizes[i].begin; k < sizes[i].end; ++k) kept.push_back(sorted[k]);
  }
  return kept;
}

std::vector<SizeTime> WithoutOutliers(std::span<const SizeTime> points, const LogForm& log_form) {
  const std::vector<SizeTime> sorted = Sorted(points);
  const std::vector<Residual> residuals = Residuals(sorted, log_form);
  std::vector<SizeTime> kept;
  for (size_t i = 0; i < sorted.size(); ++i) {
    const LocalScatter scatter = ScatterAround(residuals, i);
    const double limit = std::max(3 * scatter.sigma, kMinOutlier);
    if (scatter.count < kMinWindow || std::abs(residuals[i].value - scatter.median) <= limit) {
      kept.push_back(sorted[i]);
    }
  }
  return kept;
}

std::vector<SmoothedPoint> MergeNeighbours(std::span<const SizeTime> points,
                                           const LogForm& log_form) {
  const std::vector<SizeTime> sorted = Sorted(points);
  const std::vector<Residual> residuals = Residuals(sorted, log_form);
  std::vector<SmoothedPoint> merged;
  double bin_start = 0;
  double sigma = 0;
  for (size_t i = 0; i < sorted.size(); ++i) {
    const double x = residuals[i].log2_bytes;
    const double width = x - bin_start;
    const bool precise =
        !merged.empty() && sigma / std::sqrt(merged.back().weight) <= kMaxStandardError;
    if (merged.empty() || width >= kCoarseOctaves || (width >= kFineOctaves && precise)) {
      const LocalScatter scatter = ScatterAround(residuals, i);
      sigma = log_form && scatter.count >= kMinWindow ? scatter.sigma : 0;
      bin_start = x;
      merged.push_back({x, residuals[i].value, 1});
      continue;
    }
    SmoothedPoint& bin = merged.back();
    bin.log2_bytes += (x - bin.log2_bytes) / (bin.weight + 1);
    bin.log_time += (residuals[i].value - bin.log_time) / (bin.weight + 1);
    bin.weight += 1;
  }
  if (log_form) {
    for (SmoothedPoint& bin : merged) bin.log_time += log_form(std::exp2(bin.log2_bytes));
  }
  return merged;
}

void MakeNonDecreasing(std::vector<SmoothedPoint>& points) {
  struct Block {
    double sum = 0;
    double weight = 0;
    size_t count = 0;
    double mean() const { return sum / weight; }
  };
  std::vector<Block> blocks;
  for (const SmoothedPoint& point : points) {
    blocks.push_back({point.log_time * point.weight, point.weight, 1});
    while (blocks.size() > 1 && blocks[blocks.size() - 2].mean() > blocks.back().mean()) {
      const Block last = blocks.back();
      blocks.pop_back();
      blocks.back().sum += last.sum;
      blocks.back().weight += last.weight;
      blocks.back().count += last.count;
    }
  }
  size_t i = 0;
  for (const Block& block : blocks) {
    for (size_t k = 0; k < block.count; ++k) points[i++].log_time = block.mean();
  }
}

}  // namespace foretrace
