#pragma once
// What replicas exchange of weights and gradients that they divide among them layer by layer (ZeRO
// stages 2 and 3).

#include <utility>

#include "simulator/base/dtype.h"
#include "simulator/mapping/group_costs.h"
#include "simulator/mapping/host_costs.h"
#include "simulator/mapping/kernel_coster.h"
#include "simulator/mapping/mapped_layer.h"

namespace foretrace {

class DividedCosts {
 public:
  // Keeps references to all.
  DividedCosts(const ParallelMapping& mapping, const ClusterParameters& cluster,
               const MappedLayer& layer, const GroupCosts& groups, const HostCosts& host);

  // Sets gathers, with what casts their parts, reductions and what roots exchange.
  void Set(PassTimes& times) const;
  // Of a layer, what a gathering has from the host.
  SimTime WeightsFromHost() const;
  // What kernels wait for once weights that were gathered in fewer bits are there: all are cast
  // back.
  SimTime CastBack(double elements, CostSources& sources) const;

 private:
  void SetRoots(PassTimes& times) const;
  void SetReductions(PassTimes& times) const;
  void SetGathers(PassTimes& times) const;
  SimTime Cast(double elements, DType from, DType to, CostSources& sources) const;
  // Of elements of `width` bytes, or of fewer bits.
  SimTime Gather(double elements, double width, SpacedGroup shards, CostSources& sources) const;
  // Forward and backward, with what comes from the host before.
  std::pair<SimTime, SimTime> Gathers(double elements, double width, SpacedGroup shards,
                                      double from_host, CostSources& sources) const;
  LayerExchange Reduced(double elements, SpacedGroup shards) const;
  void ReduceBehind(PassTimes& times) const;
  double DenseFromHost() const { return host_.Weights(layer_.dense() / m_.shards()); }
  double ExpertsFromHost() const {
    return host_.Weights(layer_.expert() / groups_.ExpertShards().ranks);
  }

  const ParallelMapping& m_;
  const ClusterParameters& p_;
  const MappedLayer& layer_;
  const GroupCosts& groups_;
  const HostCosts& host_;
  KernelCoster kernels_;
  double e_, gradient_;  // bytes of a weight and of a gradient
};

}  // namespace foretrace
