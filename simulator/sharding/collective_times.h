#pragma once
// How long the collectives of a sharded model take, by size: a calibrated curve where the platform
// has one, else the closed form of its topology.

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "simulator/base/collective_op.h"
#include "simulator/base/estimate.h"
#include "simulator/base/units.h"
#include "simulator/cost/collective/collective_calibration.h"
#include "simulator/network/fitted_network.h"
#include "simulator/topology/topology.h"

namespace foretrace {

// Who takes part. Ranks are placed on nodes in order.
enum class CommScope : uint8_t {
  kWorld,   // all ranks
  kNode,    // the ranks of one node
  kAcross,  // one rank of every node
  kCount,
};

enum class CollectiveForm : uint8_t {
  kCalibrated,   // the calibration's own curves
  kThreeRegion,  // the multi-GPU paper's form (equation 5) fitted to samples of them
};

// Not thread-safe: what the closed form says is remembered.
class CollectiveTimes {
 public:
  // `calibration` may be null. Errors: more GPUs than the platform has, GPUs that do not fill whole
  // nodes.
  static absl::StatusOr<std::unique_ptr<CollectiveTimes>> Create(
      PlatformSpec platform, std::shared_ptr<const CollectiveCalibration> calibration, int32_t gpus,
      CollectiveForm form = CollectiveForm::kCalibrated);

  int32_t ranks_per_node() const { return ranks_per_node_; }
  int32_t nodes() const { return nodes_; }
  const PlatformSpec& platform() const { return topology_.spec(); }

  // `bytes` as TransferSpec::bytes defines it. Among one rank nothing takes time.
  Estimate Time(CollectiveOp op, CommScope scope, Bytes bytes);

 private:
  static constexpr size_t kOps = static_cast<size_t>(CollectiveOp::kCount);
  static constexpr size_t kScopes = static_cast<size_t>(CommScope::kCount);

  CollectiveTimes(Topology topology, std::shared_ptr<const CollectiveCalibration> calibration,
                  int32_t gpus);
  std::vector<int32_t> Members(CommScope scope) const;
  absl::Status Resolve(CollectiveForm form);
  absl::Status FitThreeRegion(CollectiveOp op, CommScope scope);
  // On a grid of sizes, four for each doubling.
  double ClosedFormUs(CollectiveOp op, CommScope scope, int step);

  Topology topology_;
  std::shared_ptr<const CollectiveCalibration> calibration_;
  int32_t gpus_ = 1;
  int32_t nodes_ = 1;
  int32_t ranks_per_node_ = 1;
  std::unique_ptr<FittedNetwork> network_;
  std::array<std::array<CollectiveEstimator, kOps>, kScopes> estimators_;
  std::array<std::array<std::unique_ptr<CollectiveCurve>, kOps>, kScopes> three_region_;
  absl::flat_hash_map<int, double> closed_form_;
};

}  // namespace foretrace
