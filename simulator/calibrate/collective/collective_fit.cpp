#include "simulator/calibrate/collective/collective_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>
#include <string>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/calibrate/collective/sweep_smoothing.h"
#include "simulator/calibrate/least_squares.h"

namespace foretrace {
namespace {

// Knots that the curve through their neighbours meets this closely (in log time) are left out.
constexpr double kKnotTolerance = 1e-3;
constexpr double kSoftL1Scale = 0.05;
constexpr int kRandomStarts = 4;

// Seven significant digits: what the calibration file holds.
double Rounded(double value) {
  const std::string text = fmt::format("{:.7g}", value);
  double result = 0;
  std::from_chars(text.data(), text.data() + text.size(), result);
  return result;
}

// Free parameters shared by both forms: bounded, and monotone for every value within the bounds.
enum Parameter { kLogStart, kHeight, kMidpoint, kSlopeShare, kOffset, kCurveParameters };
enum RegionParameter { kLogM1 = kOffset, kLogM2 = kCurveParameters, kRegionParameters };

CurveSpec SpecOf(std::span<const double> p, CurveForm form, double bus_factor) {
  CurveSpec spec;
  spec.form = form;
  spec.bus_factor = bus_factor;
  spec.start_up_us = std::exp(p[kLogStart]);
  spec.sigmoid.height = p[kHeight];
  spec.sigmoid.midpoint = p[kMidpoint];
  spec.sigmoid.slope = p[kSlopeShare] * MaxMonotoneSlope(p[kHeight]);
  if (form == CurveForm::kCurve) {
    spec.sigmoid.offset = p[kOffset];
    return spec;
  }
  // Continuity at m1 fixes the sigmoid's offset, continuity at m2 the largest bandwidth.
  const double x1 = p[kLogM1];
  const double x2 = std::max(p[kLogM2], x1 + 0.01);
  spec.m1_bytes = std::exp2(x1);
  spec.m2_bytes = std::exp2(x2);
  spec.sigmoid.offset =
      std::log10(spec.m1_bytes * bus_factor / (spec.start_up_us * 1e3)) - spec.sigmoid(x1);
  const double at_m2 = spec.m2_bytes * bus_factor / (std::pow(10, spec.sigmoid(x2)) * 1e3);
  spec.max_bandwidth_gbps =
      spec.m2_bytes * bus_factor / (std::max(at_m2 - spec.start_up_us, 1e-9) * 1e3);
  return spec;
}

LeastSquaresProblem BuildProblem(const std::vector<SmoothedPoint>& points, CurveForm form,
                                 double bus_factor) {
  const double x_low = points.front().log2_bytes;
  const double x_high = points.back().log2_bytes;
  const double first = points.front().log_time;
  const double last = points.back().log_time;
  // log10 of the bus bandwidth at the largest size, in GB/s.
  const double top =
      (x_high * std::numbers::ln2 + std::log(bus_factor) - last) / std::numbers::ln10 - 3;
  LeastSquaresProblem problem;
  problem.residual_count = points.size();
  problem.bounds = {{first - 6, std::max(first, last) + 0.5},  // ln start-up, us
                    {0.01, 5},                 // sigmoid height, decades of bandwidth
                    {x_low - 10, x_high + 6},  // midpoint
                    {0.02, 1}};                // share of the largest monotone slope
  const double mid = 0.5 * (x_low + x_high);
  if (form == CurveForm::kCurve) {
    problem.bounds.push_back({top - 6, top + 2});
    for (double height : {0.5, 1.5}) {
      problem.starts.push_back({first - 0.2, height, mid, 0.5, top - height});
      problem.starts.push_back({first - 2.0, height, mid - 3, 0.5, top - height});
    }
  } else {
    problem.bounds[kLogStart] = {first - 3, first + 1};
    problem.bounds.push_back({x_low, mid});
    problem.bounds.push_back({mid, x_high});
    for (double height : {0.5, 1.5, 3.0}) {
      problem.starts.push_back({first, height, mid, 0.8, x_low + 1, x_high - 1});
    }
  }
  problem.residuals = [points, form, bus_factor](std::span<const double> p,
                                                 std::span<double> residuals) {
    const CurveSpec spec = SpecOf(p, form, bus_factor);
    for (size_t i = 0; i < points.size(); ++i) {
      const double x = points[i].log2_bytes;
      residuals[i] =
          std::log(ClosedForm(spec, RealBytes(std::exp2(x)), x).us()) - points[i].log_time;
    }
  };
  return problem;
}

CurveSpec RoundedSpec(CurveSpec spec) {
  for (double* value :
       {&spec.start_up_us, &spec.sigmoid.height, &spec.sigmoid.midpoint, &spec.sigmoid.slope,
        &spec.sigmoid.offset, &spec.m1_bytes, &spec.m2_bytes, &spec.max_bandwidth_gbps}) {
    *value = Rounded(*value);
  }
  return spec;
}

// Knots at `points`, without those that their neighbours already predict. Greedy from the left.
absl::StatusOr<CollectiveCurve> WithKnots(CurveSpec spec,
                                          const std::vector<SmoothedPoint>& points) {
  spec.knots.clear();
  FORETRACE_ASSIGN_OR_RETURN(const CollectiveCurve form, CollectiveCurve::Create(spec));
  const auto log_form = [&](const SmoothedPoint& point) {
    return std::log(form.Time(RealBytes(std::exp2(point.log2_bytes))).us());
  };
  // True when the segment from `from` to `to` meets all points between.
  const auto straight = [&](size_t from, size_t to) {
    const double low = log_form(points[from]);
    const double span = log_form(points[to]) - low;
    for (size_t i = from + 1; i < to; ++i) {
      const double share = span > 1e-9 ? (log_form(points[i]) - low) / span : 0.5;
      const double time =
          points[from].log_time + share * (points[to].log_time - points[from].log_time);
      if (std::abs(time - points[i].log_time) > kKnotTolerance) return false;
    }
    return true;
  };
  const auto add = [&](size_t i) {
    spec.knots.push_back(
        {Rounded(points[i].log2_bytes), Rounded(points[i].log_time - log_form(points[i]))});
  };
  size_t from = 0;
  add(0);
  while (from + 1 < points.size()) {
    size_t to = from + 1;
    while (to + 1 < points.size() && straight(from, to + 1)) ++to;
    add(to);
    from = to;
  }
  return CollectiveCurve::Create(std::move(spec));
}

// `spec` with start-up and bandwidth scaled, each by one factor, so that the closed form times
// exp(`kept`) meets `points` best (relative least squares, drawn weakly to no change). The three
// regions must meet each other and stay as they are.
template <typename Kept>
CurveSpec ScaledToMeet(CurveSpec spec, std::span<const SizeTime> points, const Kept& kept) {
  if (spec.form != CurveForm::kCurve) return spec;
  constexpr double kTowardsPrior = 1e-3;  // squared weight of "no change" beside one point
  constexpr double kSmallest = 0.01;
  double ss = kTowardsPrior, sm = 0, mm = kTowardsPrior, s1 = kTowardsPrior, m1 = kTowardsPrior;
  for (const SizeTime& point : points) {
    const double factor = std::exp(kept(point.bytes)) / point.time_us;
    const RealUs form = ClosedForm(spec, RealBytes(point.bytes), std::log2(point.bytes));
    const double moving = (form.us() - spec.start_up_us) * factor;
    const double start = spec.start_up_us * factor;
    ss += start * start;
    sm += start * moving;
    mm += moving * moving;
    s1 += start;
    m1 += moving;
  }
  // Two unknowns, neither below kSmallest.
  double start_factor = (s1 * mm - m1 * sm) / (ss * mm - sm * sm);
  double moving_factor = (m1 * ss - s1 * sm) / (ss * mm - sm * sm);
  if (start_factor < kSmallest) {
    start_factor = kSmallest;
    moving_factor = std::max((m1 - sm * start_factor) / mm, kSmallest);
  } else if (moving_factor < kSmallest) {
    moving_factor = kSmallest;
    start_factor = std::max((s1 - sm * moving_factor) / ss, kSmallest);
  }
  spec.start_up_us *= start_factor;
  spec.sigmoid.offset -= std::log10(moving_factor);
  return spec;
}

// Linear in x between the points, constant beyond them.
double Interpolated(const std::vector<std::pair<double, double>>& points, double x) {
  const auto next = std::upper_bound(points.begin(), points.end(), std::pair(x, 1e300));
  if (next == points.begin()) return next->second;
  const auto& [x0, y0] = *(next - 1);
  if (next == points.end()) return y0;
  return y0 + (next->second - y0) * (x - x0) / (next->first - x0);
}

}  // namespace

absl::StatusOr<CollectiveCurve> FitCollectiveCurve(std::span<const SizeTime> measured,
                                                   double bus_factor, CurveForm form,
                                                   uint64_t seed) {
  const std::vector<SizeTime> points = WithoutSpikes(measured);
  std::vector<SmoothedPoint> smooth = MergeNeighbours(points, {});
  const size_t needed = form == CurveForm::kThreeRegion ? kMinThreeRegionPoints : kMinCurvePoints;
  if (smooth.size() < needed) {
    return InvalidInput("{} sizes; the form {} needs at least {}", smooth.size(), Name(form),
                        needed);
  }
  const LeastSquaresProblem problem = BuildProblem(smooth, form, bus_factor);
  FORETRACE_ASSIGN_OR_RETURN(const LeastSquaresResult fit,
                             SolveLeastSquares(problem, {.soft_l1_scale = kSoftL1Scale,
                                                         .random_starts = kRandomStarts,
                                                         .seed = seed,
                                                         .max_iterations = 60}));
  CurveSpec spec = RoundedSpec(SpecOf(fit.parameters, form, bus_factor));
  if (form == CurveForm::kThreeRegion) return CollectiveCurve::Create(std::move(spec));
  FORETRACE_ASSIGN_OR_RETURN(const CollectiveCurve closed_form, CollectiveCurve::Create(spec));
  const auto log_form = [&](double bytes) {
    return std::log(closed_form.Time(RealBytes(bytes)).us());
  };
  smooth = MergeNeighbours(WithoutOutliers(points, log_form), log_form);
  MakeNonDecreasing(smooth);
  return WithKnots(std::move(spec), smooth);
}

absl::StatusOr<CollectiveCurve> AdaptCollectiveCurve(const CollectiveCurve& prior,
                                                     std::span<const SizeTime> points,
                                                     PriorDetail detail) {
  std::vector<SizeTime> sorted;
  for (const SizeTime& point : points) sorted.push_back(point);
  std::sort(sorted.begin(), sorted.end(),
            [](const SizeTime& a, const SizeTime& b) { return a.bytes < b.bytes; });
  const auto same = [](const SizeTime& a, const SizeTime& b) { return a.bytes == b.bytes; };
  sorted.erase(std::unique(sorted.begin(), sorted.end(), same), sorted.end());
  if (sorted.size() < 3) {
    return InvalidInput("{} sizes; adapting needs at least 3", sorted.size());
  }
  // ln(prior / its closed form), which stays where it is while the form is scaled.
  const auto kept = [&](double bytes) {
    if (detail == PriorDetail::kDropped) return 0.0;
    const RealUs form = ClosedForm(prior.spec(), RealBytes(bytes), std::log2(bytes));
    return std::log(prior.Time(RealBytes(bytes)) / form);
  };
  const CurveSpec spec = RoundedSpec(ScaledToMeet(prior.spec(), sorted, kept));
  const auto scaled = [&](double x) {
    return std::log(ClosedForm(spec, RealBytes(std::exp2(x)), x).us()) + kept(std::exp2(x));
  };
  std::vector<std::pair<double, double>> correction;  // log2 bytes, ln ratio
  std::vector<double> sizes;
  for (const CurveKnot& knot : prior.spec().knots) sizes.push_back(knot.log2_bytes);
  for (const SizeTime& point : sorted) {
    const double x = std::log2(point.bytes);
    sizes.push_back(x);
    correction.emplace_back(x, std::log(point.time_us) - scaled(x));
  }
  std::sort(sizes.begin(), sizes.end());
  std::vector<SmoothedPoint> corrected;
  for (double x : sizes) {
    if (!corrected.empty() && x - corrected.back().log2_bytes < 1e-6) continue;
    const double log_time = scaled(x) + Interpolated(correction, x);
    corrected.push_back(
        {x, corrected.empty() ? log_time : std::max(log_time, corrected.back().log_time), 1});
  }
  return WithKnots(spec, corrected);
}

}  // namespace foretrace
