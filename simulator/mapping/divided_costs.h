#pragma once
// What replicas exchange of weights and gradients that they divide among them layer by layer (ZeRO
// stages 2 and 3).

#include "simulator/mapping/group_costs.h"
#include "simulator/mapping/host_costs.h"
#include "simulator/mapping/mapped_layer.h"

namespace foretrace {

class DividedCosts {
 public:
  // Keeps references to all.
  DividedCosts(const ParallelMapping& mapping, const ClusterParameters& cluster,
               const MappedLayer& layer, const GroupCosts& groups, const HostCosts& host);

  // Sets gathers, reductions and what roots exchange.
  void Set(PassTimes& times) const;
  // Of a layer, what a gathering has from the host.
  SimTime WeightsFromHost() const;

 private:
  void SetRoots(PassTimes& times) const;
  void SetReductions(PassTimes& times) const;
  void SetGathers(PassTimes& times) const;
  // Forward and backward, with what comes from the host before.
  std::pair<SimTime, SimTime> Gathers(double bytes, SpacedGroup shards, double from_host) const;
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
  double e_, gradient_;  // bytes of a weight and of a gradient
};

}  // namespace foretrace
