#include "simulator/network/calibrated_transfers.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "simulator/base/real_quantities.h"
#include "simulator/cost/collective/message_size.h"

namespace foretrace {
namespace {

class Lookup {
 public:
  Lookup(std::shared_ptr<const CollectiveCalibration> calibration, const Topology& topology)
      : calibration_(std::move(calibration)), topology_(&topology) {}

  std::optional<Estimate> operator()(const TransferSpec& spec) {
    const CollectiveOp op = spec.point_to_point ? CollectiveOp::kSendRecv : spec.op;
    const Resolved& resolved = Find(op, spec.members);
    if (!resolved.estimator.covered() || spec.bytes.count() < 0) return std::nullopt;
    const Bytes size = SizeOf(spec);
    const RealBytes bytes = std::max(RealBytes(size), RealBytes(1));
    if (bytes * kFarthest < resolved.smallest || bytes > resolved.largest * kFarthest) {
      return std::nullopt;
    }
    Estimate estimate = resolved.estimator.Time(size);
    estimate.extrapolated |= !resolved.even;
    return estimate;
  }

 private:
  // How many times beyond the measured sizes a curve is still asked: farther off, protocols differ,
  // and the analytic models of the topology know more.
  static constexpr double kFarthest = 4;

  struct Resolved {
    CollectiveEstimator estimator;
    bool even = true;
    RealBytes smallest, largest;  // measured sizes
  };

  static Bytes SizeOf(const TransferSpec& spec) {
    const size_t n = spec.members.size();
    if (spec.split_bytes.size() != n * n || n == 0) return spec.bytes;
    return AllToAllMessageSize(spec.split_bytes, n);
  }

  const Resolved& Find(CollectiveOp op, const std::vector<int32_t>& members) {
    const auto [it, inserted] = resolved_.try_emplace(std::pair(op, members));
    if (!inserted) return it->second;
    Resolved& resolved = it->second;
    const auto devices = topology_->DevicesOf(members);
    if (!devices.ok() || members.empty()) return resolved;  // the planner says what is wrong
    absl::flat_hash_map<int32_t, int32_t> by_node;
    for (const DeviceId device : *devices) ++by_node[topology_->node_of(device)];
    const auto nodes = static_cast<int32_t>(by_node.size());
    const auto count = static_cast<int32_t>(members.size());
    for (const auto& [node, ranks] : by_node) resolved.even &= ranks * nodes == count;
    resolved.estimator = calibration_->Resolve(op, count, nodes);
    SetRange(op, count, nodes, resolved);
    return resolved;
  }

  // Of the curves for exactly these ranks where there are any, else of all for the operation within
  // or across nodes.
  void SetRange(CollectiveOp op, int32_t ranks, int32_t nodes, Resolved& resolved) const {
    for (const bool exact : {true, false}) {
      for (const CollectiveModel& model : calibration_->models()) {
        if (model.op != op || (model.nodes > 1) != (nodes > 1)) continue;
        if (exact && (model.ranks != ranks || model.nodes != nodes)) continue;
        const RealBytes least(model.min_bytes);
        const RealBytes most(model.max_bytes);
        const bool first = resolved.largest == RealBytes();
        resolved.smallest = first ? least : std::min(resolved.smallest, least);
        resolved.largest = std::max(resolved.largest, most);
      }
      if (resolved.largest > RealBytes()) return;
    }
  }

  std::shared_ptr<const CollectiveCalibration> calibration_;
  const Topology* topology_;
  absl::flat_hash_map<std::pair<CollectiveOp, std::vector<int32_t>>, Resolved> resolved_;
};

}  // namespace

FittedNetwork::Measured CalibratedTransfers(
    std::shared_ptr<const CollectiveCalibration> calibration, const Topology& topology) {
  return Lookup(std::move(calibration), topology);
}

}  // namespace foretrace
