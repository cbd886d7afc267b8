#include "simulator/sharding/collective_times.h"

#include <algorithm>
#include <cmath>

#include "simulator/base/check.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/calibrate/collective/collective_fit.h"

namespace foretrace {
namespace {

constexpr int kStepsPerDoubling = 4;
constexpr std::array<CollectiveOp, 4> kUsed = {CollectiveOp::kAllToAll, CollectiveOp::kAllReduce,
                                               CollectiveOp::kReduceScatter,
                                               CollectiveOp::kAllGather};
constexpr std::array<CommScope, 3> kScopesInOrder = {CommScope::kWorld, CommScope::kNode,
                                                     CommScope::kAcross};

size_t At(CollectiveOp op) { return static_cast<size_t>(op); }
size_t At(CommScope scope) { return static_cast<size_t>(scope); }

}  // namespace

CollectiveTimes::CollectiveTimes(Topology topology,
                                 std::shared_ptr<const CollectiveCalibration> calibration,
                                 int32_t gpus)
    : topology_(std::move(topology)), calibration_(std::move(calibration)), gpus_(gpus) {
  const int32_t per_node = topology_.spec().node.devices;
  ranks_per_node_ = std::min(per_node, gpus);
  nodes_ = gpus / ranks_per_node_;
  network_ =
      std::make_unique<FittedNetwork>(topology_, NetworkOptions(), FittedNetwork::Measured());
}

absl::StatusOr<std::unique_ptr<CollectiveTimes>> CollectiveTimes::Create(
    PlatformSpec platform, std::shared_ptr<const CollectiveCalibration> calibration, int32_t gpus,
    CollectiveForm form) {
  FORETRACE_ASSIGN_OR_RETURN(Topology topology, Topology::Create(std::move(platform)));
  const std::string& name = topology.spec().name;
  if (gpus > topology.rank_count()) {
    return InvalidInput("the task has {} GPUs, but platform {} has {}; choose a larger platform",
                        gpus, name, topology.rank_count());
  }
  const int32_t per_node = topology.spec().node.devices;
  if (gpus > per_node && gpus % per_node != 0) {
    return InvalidInput("{} GPUs do not fill whole nodes of platform {}, which have {} each", gpus,
                        name, per_node);
  }
  std::unique_ptr<CollectiveTimes> times(
      new CollectiveTimes(std::move(topology), std::move(calibration), gpus));
  FORETRACE_RETURN_IF_ERROR(times->Resolve(form));
  return times;
}

absl::Status CollectiveTimes::Resolve(CollectiveForm form) {
  for (const CommScope scope : kScopesInOrder) {
    const auto ranks = static_cast<int32_t>(Members(scope).size());
    const int32_t nodes = scope == CommScope::kNode ? 1 : nodes_;
    if (ranks < 2) continue;
    for (const CollectiveOp op : kUsed) {
      if (calibration_ != nullptr) {
        estimators_[At(scope)][At(op)] = calibration_->Resolve(op, ranks, nodes);
      }
      if (form == CollectiveForm::kThreeRegion) {
        FORETRACE_RETURN_IF_ERROR(FitThreeRegion(op, scope));
      }
      // One probe each, so that a transfer that the platform cannot do is an error here.
      TransferSpec probe;
      probe.op = op;
      probe.members = Members(scope);
      probe.bytes = Bytes(1 << 20);
      FORETRACE_RETURN_IF_ERROR(network_->IsolatedDuration(probe).status());
    }
  }
  return absl::OkStatus();
}

std::vector<int32_t> CollectiveTimes::Members(CommScope scope) const {
  std::vector<int32_t> members;
  const int32_t stride = scope == CommScope::kAcross ? ranks_per_node_ : 1;
  const int32_t end = scope == CommScope::kNode ? ranks_per_node_ : gpus_;
  for (int32_t r = 0; r < end; r += stride) members.push_back(r);
  return members;
}

// As the paper's microbenchmark: sizes from 4 bytes on, doubling (section IV-A).
absl::Status CollectiveTimes::FitThreeRegion(CollectiveOp op, CommScope scope) {
  std::vector<SizeTime> points;
  for (int log2 = 2; log2 <= 30; ++log2) {
    const Bytes bytes(int64_t{1} << log2);
    points.push_back({static_cast<double>(bytes.count()), Time(op, scope, bytes).time.us()});
  }
  FORETRACE_ASSIGN_OR_RETURN(
      CollectiveCurve curve,
      FitCollectiveCurve(points, BusFactor(op, static_cast<int64_t>(Members(scope).size())),
                         CurveForm::kThreeRegion, 1));
  three_region_[At(scope)][At(op)] = std::make_unique<CollectiveCurve>(std::move(curve));
  return absl::OkStatus();
}

double CollectiveTimes::ClosedFormUs(CollectiveOp op, CommScope scope, int step) {
  const int key =
      (step * static_cast<int>(kOps) + static_cast<int>(op)) * static_cast<int>(kScopes) +
      static_cast<int>(scope);
  const auto known = closed_form_.find(key);
  if (known != closed_form_.end()) return known->second;
  TransferSpec spec;
  spec.op = op;
  spec.members = Members(scope);
  spec.bytes = Bytes(std::llround(std::exp2(static_cast<double>(step) / kStepsPerDoubling)));
  const auto estimate = network_->IsolatedDuration(spec);
  FORETRACE_CHECK(estimate.ok());  // probed in Resolve
  return closed_form_[key] = estimate->time.us();
}

Estimate CollectiveTimes::Time(CollectiveOp op, CommScope scope, Bytes bytes) {
  const bool alone = scope == CommScope::kWorld  ? gpus_ < 2
                     : scope == CommScope::kNode ? ranks_per_node_ < 2
                                                 : nodes_ < 2;
  if (alone) return {SimTime(), EstimateSource::kAnalytic, false};
  const double size = std::max(1.0, static_cast<double>(bytes.count()));
  if (const auto& curve = three_region_[At(scope)][At(op)]; curve != nullptr) {
    return {SimTime::FromUs(curve->Time(RealBytes(size)).us()),
            estimators_[At(scope)][At(op)].covered() ? EstimateSource::kCalibrated
                                                     : EstimateSource::kAnalytic,
            false};
  }
  if (estimators_[At(scope)][At(op)].covered()) return estimators_[At(scope)][At(op)].Time(bytes);
  const double position = std::log2(size) * kStepsPerDoubling;
  const int step = static_cast<int>(position);
  const double low = ClosedFormUs(op, scope, step);
  const double high = ClosedFormUs(op, scope, step + 1);
  const double us = low + (high - low) * (position - step);
  return {SimTime::FromUs(us), EstimateSource::kAnalytic, false};
}

}  // namespace foretrace
