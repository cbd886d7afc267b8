#pragma once
// Calibrated durations of the collectives, sends and receives of a trace.

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "simulator/cost/collective/collective_calibration.h"
#include "simulator/cost/cost_model.h"

namespace foretrace {

// For one trace store, which must outlive the model. Ranks are placed on nodes in order,
// `ranks_per_node` to a node (0: all in one node).
//
// The size of an all-to-all is the largest over its members, found by matching their all-to-alls of
// one group by declared sequence number, else by order of issue. Nodes without a size or outside
// the calibration are left to the next model of the chain.
class CollectiveCostModel : public CostModel {
 public:
  CollectiveCostModel(std::shared_ptr<const CollectiveCalibration> calibration,
                      const TraceStore& store, int32_t ranks_per_node);

  std::string_view name() const override { return "collective"; }
  std::optional<Estimate> Predict(const TraceStore& store, const RankTrace& rank,
                                  NodeIndex node) const override;

 private:
  struct Placement {
    int32_t ranks = 0;
    int32_t nodes = 1;
  };
  int32_t NodeOf(int32_t rank) const { return ranks_per_node_ > 0 ? rank / ranks_per_node_ : 0; }
  Placement PlacementOf(const CommAttr& comm) const;
  void UniteAllToAllSizes(const TraceStore& store);

  std::shared_ptr<const CollectiveCalibration> calibration_;
  const TraceStore* store_;
  int32_t ranks_per_node_;
  absl::flat_hash_map<StringId, Placement> groups_;
  // All-to-all nodes whose group's size is larger than their own rank's.
  absl::flat_hash_map<std::pair<int32_t, NodeIndex>, Bytes> united_bytes_;
};

}  // namespace foretrace
