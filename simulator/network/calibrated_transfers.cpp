#include "simulator/network/calibrated_transfers.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "simulator/cost/collective/measured_sizes.h"
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
    if (!resolved.sizes.Near(size)) return std::nullopt;
    Estimate estimate = resolved.estimator.Time(size);
    estimate.extrapolated |= !resolved.even;
    return estimate;
  }

 private:
  struct Resolved {
    CollectiveEstimator estimator;
    bool even = true;
    MeasuredSizes sizes;
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
    resolved.sizes = SizesOf(*calibration_, op, count, nodes);
    return resolved;
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
