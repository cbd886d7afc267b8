#include "simulator/cost/collective/collective_calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "simulator/base/check.h"

namespace foretrace {
namespace {

bool UsuallyInPlace(CollectiveOp op) {
  return op == CollectiveOp::kAllReduce || op == CollectiveOp::kReduce ||
         op == CollectiveOp::kBroadcast;
}

// Sweeps that may be interpolated into each other differ only in the last element. Within a node
// every number of ranks is of one family; across nodes the ranks per node must agree.
std::tuple<CollectiveOp, double, int32_t> SortKey(CollectiveOp op, int32_t ranks, int32_t nodes) {
  return {op, nodes > 1 ? static_cast<double>(ranks) / nodes : 0, ranks};
}

}  // namespace

std::string CollectiveModel::Name() const {
  return fmt::format("{} ranks={} nodes={} {} {} {} {}", foretrace::Name(op), ranks, nodes,
                     inplace ? "in-place" : "out-of-place", dtype, library, source);
}

CollectiveCalibration::CollectiveCalibration(CalibrationHeader header,
                                             std::vector<CollectiveModel> models)
    : header_(std::move(header)), models_(std::move(models)) {
  const auto key = [](const auto& x) { return SortKey(x.op, x.ranks, x.nodes); };
  std::vector<uint32_t> order(models_.size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const CollectiveModel& x = models_[a];
    const CollectiveModel& y = models_[b];
    const bool x_unusual = x.inplace != UsuallyInPlace(x.op);
    const bool y_unusual = y.inplace != UsuallyInPlace(y.op);
    return std::tuple(key(x), x_unusual) < std::tuple(key(y), y_unusual);
  });
  for (uint32_t index : order) {
    const CollectiveModel& model = models_[index];
    if (groups_.empty() || key(groups_.back()) != key(model)) {
      groups_.push_back({model.op, model.ranks, model.nodes, BusFactor(model.op, model.ranks), {}});
    }
    groups_.back().models.push_back(index);
  }
}

CollectiveCalibration::Time CollectiveCalibration::GroupTime(const Group& group,
                                                             Bytes bytes) const {
  const CollectiveModel* nearest = nullptr;
  double nearest_ratio = std::numeric_limits<double>::infinity();
  for (uint32_t index : group.models) {
    const CollectiveModel& model = models_[index];
    if (bytes >= model.min_bytes && bytes <= model.max_bytes) {
      return {model.curve.Time(RealBytes(bytes)), false};
    }
    const RealBytes size(std::max(bytes, Bytes(1)));
    const double ratio = bytes < model.min_bytes ? RealBytes(model.min_bytes) / size
                                                 : size / RealBytes(model.max_bytes);
    if (ratio < nearest_ratio) {
      nearest_ratio = ratio;
      nearest = &model;
    }
  }
  FORETRACE_CHECK(nearest != nullptr);
  return {nearest->curve.Time(RealBytes(bytes)), true};
}

CollectiveEstimator CollectiveCalibration::Resolve(CollectiveOp op, int32_t ranks,
                                                   int32_t nodes) const {
  CollectiveEstimator estimator;
  if (ranks < 2 || nodes < 1 || nodes > ranks) return estimator;
  const bool may_interpolate = nodes > 1 || header_.interconnect == Interconnect::kSwitch;
  const auto wanted = SortKey(op, ranks, nodes);
  const auto key = [](const Group& g) { return SortKey(g.op, g.ranks, g.nodes); };
  const auto same_family = [&](const Group& g) {
    return g.op == op && std::get<1>(key(g)) == std::get<1>(wanted);
  };
  const auto above =
      std::lower_bound(groups_.begin(), groups_.end(), wanted,
                       [&](const Group& g, const auto& value) { return key(g) < value; });
  const Group* high = above != groups_.end() && same_family(*above) ? &*above : nullptr;
  const Group* low =
      above != groups_.begin() && same_family(*(above - 1)) ? &*(above - 1) : nullptr;
  estimator.bus_factor_ = BusFactor(op, ranks);
  const bool exact = high != nullptr && high->ranks == ranks;
  if (exact) {
    estimator.low_ = high;
  } else if (may_interpolate && low != nullptr && high != nullptr) {
    estimator.low_ = low;
    estimator.high_ = high;
    estimator.high_weight_ = std::log(static_cast<double>(ranks) / low->ranks) /
                             std::log(static_cast<double>(high->ranks) / low->ranks);
  } else if (may_interpolate && (low != nullptr || high != nullptr)) {
    estimator.low_ = low != nullptr ? low : high;
    estimator.extrapolated_ranks_ = true;
  }
  estimator.calibration_ = this;
  return estimator;
}

double CollectiveEstimator::GrowingShare(const CollectiveCalibration::Group& group,
                                         Bytes bytes) const {
  const int64_t size = std::max<int64_t>(bytes.count(), 1);
  const Bytes below(std::max<int64_t>(size / 2, 1));
  const Bytes above(size > std::numeric_limits<int64_t>::max() / 2 ? size : size * 2);
  const RealUs low = calibration_->GroupTime(group, below).time;
  const RealUs high = calibration_->GroupTime(group, above).time;
  const double doublings = std::log2(RealBytes(above) / RealBytes(below));
  return std::clamp(std::log2(high / low) / doublings, 0.0, 1.0);
}

Estimate CollectiveEstimator::Time(Bytes bytes) const {
  FORETRACE_CHECK(covered());
  const auto [low_time, extrapolated] = calibration_->GroupTime(*low_, bytes);
  Estimate estimate;
  estimate.source = EstimateSource::kCalibrated;
  estimate.extrapolated = extrapolated || extrapolated_ranks_;
  // What crosses the busiest link goes with the bus factor. Latency does not: among more ranks it
  // grows as the ranks on either side show; beyond them the bus factor is nearer to how it grows
  // than nothing.
  double factor = bus_factor_ / low_->bus_factor, share = 1;
  RealUs time = low_time;
  if (high_ != nullptr) {
    const auto high = calibration_->GroupTime(*high_, bytes);
    time = time * std::pow(high.time / time, high_weight_);
    factor *= std::pow(low_->bus_factor / high_->bus_factor, high_weight_);
    share = (1 - high_weight_) * GrowingShare(*low_, bytes) +
            high_weight_ * GrowingShare(*high_, bytes);
    estimate.extrapolated |= high.extrapolated;
  }
  time = time * std::pow(factor, share);
  constexpr RealUs kLongest(9e12);  // what SimTime holds
  estimate.time = SimTime::FromUs(std::min(time, kLongest).us());
  return estimate;
}

}  // namespace foretrace
