#pragma once
// What exchanges among a mapping's groups of devices take: measurements where the device has them,
// else the network's own times.

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "simulator/mapping/iteration_model.h"

namespace foretrace {

class GroupCosts {
 public:
  // Keeps references to all. `status` learns of the first exchange that the network cannot time,
  // which then takes nothing here.
  GroupCosts(const ParallelMapping& mapping, const ClusterParameters& cluster, absl::Status& status)
      : m_(mapping), p_(cluster), status_(status) {}

  SimTime Collective(CollectiveOp op, SpacedGroup group, double bytes) const;
  // Over the tensor-parallel group: an all-reduce, or under sequence parallelism an all-gather and
  // a reduce-scatter, which switches do not speed up.
  SimTime TensorReduction(double bytes) const;
  // One exchange of a sharded graph, with what its kernels and streams wait for.
  SimTime Exchange(ShardGroup group, CollectiveOp op, double bytes) const;
  // What streams wait for each other around a collective: from the kernels before it to its own
  // stream, and back.
  SimTime Handovers() const { return p_.stream_wait + p_.stream_wait; }
  // Of keys and values, from a device that holds a part of a sequence to the next one.
  SimTime ContextHop(double bytes) const;
  // Every tensor-parallel rank sends its share to the next stage; the receivers gather it. The
  // gradient goes back likewise, as ClusterParameters says.
  SimTime Transfer(double bytes, bool gradient = false) const;
  // What a device's kernel of a collective holds of it, which takes `time`. No multiprocessors: not
  // known.
  HeldDevice Held(CollectiveOp op, SpacedGroup group, double bytes, SimTime time) const;
  // How many times as long kernels take beside what holds that: where the device's kernels are not
  // known (`measured`), by the share of its multiprocessors alone.
  double TimesBeside(const PassKernels& kernels, const HeldDevice& held) const;
  // The devices of a group of a layer.
  SpacedGroup RanksOf(ShardGroup group) const;
  // A few bytes over all devices of a stage.
  SimTime SmallAllReduce() const;
  // Devices from one that holds the same experts to the next.
  int32_t ExpertSpan() const { return m_.expert_width() * m_.expert; }
  // Of gradients of which `shards` devices, `span` apart, get a part each: a reduce-scatter among
  // them (`op`: or an all-reduce), then an all-reduce of each one's part among the copies of their
  // group.
  LayerExchange ReduceToShards(double bytes, SpacedGroup shards,
                               CollectiveOp op = CollectiveOp::kReduceScatter) const;
  // What gradients that are divided are summed by.
  CollectiveOp SumOp() const {
    return m_.zero <= p_.sums_whole ? CollectiveOp::kAllReduce : CollectiveOp::kReduceScatter;
  }
  // Whether the two need different links: one goes within nodes, the other between them.
  bool ByOtherLinks(SpacedGroup shards) const;
  // Of all replicas, or of those that hold the same experts, those that divide them.
  SpacedGroup Shards() const { return {m_.shards(), m_.tensor}; }
  SpacedGroup ExpertShards() const { return {m_.expert_shards(), ExpertSpan()}; }
  // Those whose shares make up the weights that backward passes gather.
  SpacedGroup SecondShards() const {
    return m_.second_shards > 0 ? SpacedGroup{m_.second_shards, m_.tensor} : Shards();
  }

 private:
  std::optional<SimTime> Measured(CollectiveOp op, const SpacedGroup& group, double bytes) const;
  // `time` with the share of the links' rate that exchanges attain; `least`: of no bytes.
  SimTime AtShare(SimTime time, SimTime least, double share) const;
  SimTime KnownTime(const absl::StatusOr<SimTime>& time) const;

  const ParallelMapping& m_;
  const ClusterParameters& p_;
  absl::Status& status_;
};

}  // namespace foretrace
