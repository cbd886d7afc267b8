#pragma once
// What a workload's operators take on a cluster: their calls' kernels and exchanges, from the chain
// that times mappings (kernel_coster.h, group_costs.h).

#include <cstdint>
#include <optional>

#include "simulator/base/real_quantities.h"
#include "simulator/mapping/group_costs.h"
#include "simulator/workload/workload.h"

namespace foretrace {

class OperatorTimes {
 public:
  // Keeps references to both.
  OperatorTimes(const Workload& workload, const ClusterParameters& cluster)
      : w_(workload), p_(cluster), groups_(undivided_, cluster, status_) {}
  OperatorTimes(const OperatorTimes&) = delete;
  OperatorTimes& operator=(const OperatorTimes&) = delete;

  // A pass over so many samples on one of `width` devices that divide the operator, no
  // less than its kernels take to be issued. nullopt: its calls are not known, or have no whole
  // batch dimension on so many samples.
  std::optional<RealSeconds> Kernels(const Operator& op, int32_t width, int64_t samples,
                                     Direction pass) const;
  // An all-reduce among `ranks` devices that lie `span` apart.
  RealSeconds AllReduce(int32_t ranks, int32_t span, RealBytes bytes) const {
    return RealSeconds(
        groups_.Collective(CollectiveOp::kAllReduce, {ranks, span}, bytes.count()).seconds());
  }
  // Of the kernels that were asked for, by where their time comes from.
  const CostSources& sources() const { return sources_; }
  // Errors: of the first exchange that the network cannot time, which took nothing here.
  const absl::Status& status() const { return status_; }

 private:
  const Workload& w_;
  const ClusterParameters& p_;
  ParallelMapping undivided_;
  mutable absl::Status status_;
  GroupCosts groups_;
  mutable CostSources sources_;
};

}  // namespace foretrace
