#include "simulator/cost/collective/collective_curve.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "simulator/base/check.h"
#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"

namespace foretrace {
namespace {

// Rounding of stored parameters may exceed the monotone slope by this much.
constexpr double kSlopeTolerance = 1e-6;

RealUs AtRate(RealBytes bytes, double gbps) {
  constexpr double kBytesPerUsPerGBps = 1e3;
  return RealUs(bytes.count() / (gbps * kBytesPerUsPerGBps));
}

RealUs Moving(RealBytes bytes, double log2_bytes, const CurveSpec& spec) {
  const double gbps = std::exp(std::numbers::ln10 * spec.sigmoid(log2_bytes));
  return AtRate(bytes * spec.bus_factor, gbps);
}

absl::Status CheckSpec(const CurveSpec& spec) {
  const BandwidthSigmoid& s = spec.sigmoid;
  for (double value : {spec.bus_factor, spec.start_up_us, s.height, s.midpoint, s.slope, s.offset,
                       spec.m1_bytes, spec.m2_bytes, spec.max_bandwidth_gbps}) {
    if (!std::isfinite(value)) return InvalidInput("a parameter is not a finite number");
  }
  if (spec.bus_factor <= 0 || spec.start_up_us < 0 || s.height < 0 || s.slope < 0) {
    return InvalidInput("bus factor must be positive, start-up, L and k not negative");
  }
  if (s.slope > MaxMonotoneSlope(s.height) * (1 + kSlopeTolerance)) {
    return InvalidInput("L x k = {} makes time fall with size; at most {} is allowed",
                        s.height * s.slope, s.height * MaxMonotoneSlope(s.height));
  }
  if (spec.form == CurveForm::kThreeRegion &&
      (spec.m1_bytes < 1 || spec.m2_bytes < spec.m1_bytes || spec.max_bandwidth_gbps <= 0)) {
    return InvalidInput("needs 1 <= m1 <= m2 and a positive bandwidth");
  }
  for (size_t i = 0; i < spec.knots.size(); ++i) {
    const CurveKnot& knot = spec.knots[i];
    if (!std::isfinite(knot.log2_bytes) || !std::isfinite(knot.log_residual) ||
        std::abs(knot.log_residual) > 50 || knot.log2_bytes < 0 || knot.log2_bytes > 62) {
      return InvalidInput("knot {} is out of range", i);
    }
    if (i > 0 && knot.log2_bytes <= spec.knots[i - 1].log2_bytes) {
      return InvalidInput("knot {} is not larger than the one before", i);
    }
  }
  return absl::OkStatus();
}

}  // namespace

double BusFactor(CollectiveOp op, int64_t ranks) {
  FORETRACE_CHECK(ranks >= 1);
  const auto n = static_cast<double>(ranks);
  switch (op) {
    case CollectiveOp::kAllReduce:
      return ranks == 1 ? 1 : 2 * (n - 1) / n;
    case CollectiveOp::kAllGather:
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kAllToAll:
    case CollectiveOp::kGather:
    case CollectiveOp::kScatter:
      return ranks == 1 ? 1 : (n - 1) / n;
    default:
      return 1;
  }
}

double BandwidthSigmoid::operator()(double log2_bytes) const {
  return height / (1 + std::exp(-slope * (log2_bytes - midpoint))) + offset;
}

double MaxMonotoneSlope(double height) {
  constexpr double kMaxProduct = 4 * std::numbers::ln2 / std::numbers::ln10;
  constexpr double kSteepest = 100;
  return height * kSteepest <= kMaxProduct ? kSteepest : kMaxProduct / height;
}

std::string_view Name(CurveForm form) {
  static constexpr std::array<std::string_view, 2> kNames = {"curve", "three_region"};
  return EnumName(kNames, form);
}

CurveForm ParseCurveForm(std::string_view name) {
  for (int i = 0; i < static_cast<int>(CurveForm::kCount); ++i) {
    if (Name(static_cast<CurveForm>(i)) == name) return static_cast<CurveForm>(i);
  }
  return CurveForm::kCount;
}

RealUs ClosedForm(const CurveSpec& spec, RealBytes bytes, double log2_bytes) {
  const RealUs start_up(spec.start_up_us);
  if (spec.form == CurveForm::kCurve) return start_up + Moving(bytes, log2_bytes, spec);
  const RealBytes m1(spec.m1_bytes), m2(spec.m2_bytes);
  if (bytes <= m1) return start_up;
  // The parameters meet at m1 and m2 up to their rounding in the file; max() keeps time from
  // falling there.
  if (bytes < m2) return std::max(start_up, Moving(bytes, log2_bytes, spec));
  const RealUs linear = start_up + AtRate(bytes * spec.bus_factor, spec.max_bandwidth_gbps);
  return std::max(linear, Moving(m2, std::log2(spec.m2_bytes), spec));
}

absl::StatusOr<CollectiveCurve> CollectiveCurve::Create(CurveSpec spec) {
  if (absl::Status status = CheckSpec(spec); !status.ok()) return status;
  CollectiveCurve curve;
  curve.spec_ = std::move(spec);
  curve.knots_.reserve(curve.spec_.knots.size());
  for (const CurveKnot& knot : curve.spec_.knots) {
    const RealBytes bytes(std::exp2(knot.log2_bytes));
    const double form = ClosedForm(curve.spec_, bytes, knot.log2_bytes).us();
    if (!(form > 0) || !std::isfinite(form)) return InvalidInput("the curve is not positive");
    const double log_form = std::log(form);
    double log_time = log_form + knot.log_residual;
    // The fit makes times non-decreasing; stored residuals are rounded.
    if (!curve.knots_.empty()) log_time = std::max(log_time, curve.knots_.back().log_time);
    curve.knots_.push_back({knot.log2_bytes, log_form, log_time});
  }
  return curve;
}

RealUs CollectiveCurve::Time(RealBytes bytes) const {
  bytes = std::max(bytes, RealBytes(1));
  const double x = std::log2(bytes.count());
  const RealUs form = ClosedForm(spec_, bytes, x);
  if (knots_.empty()) return form;
  const auto next =
      std::upper_bound(knots_.begin(), knots_.end(), x,
                       [](double v, const Knot& knot) { return v < knot.log2_bytes; });
  if (next == knots_.begin()) return form * std::exp(next->log_time - next->log_form);
  const Knot& low = *(next - 1);
  if (next == knots_.end()) return form * std::exp(low.log_time - low.log_form);
  const double form_span = next->log_form - low.log_form;
  constexpr double kFlat = 1e-9;
  const double share = form_span > kFlat
                           ? (std::log(form.us()) - low.log_form) / form_span
                           : (x - low.log2_bytes) / (next->log2_bytes - low.log2_bytes);
  return RealUs(
      std::exp(low.log_time + (next->log_time - low.log_time) * std::clamp(share, 0.0, 1.0)));
}

}  // namespace foretrace
