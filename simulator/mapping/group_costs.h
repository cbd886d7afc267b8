#pragma once
// What exchanges among a mapping's groups of devices take, in seconds: closed forms over the links'
// bandwidths and latencies, measurements where the device has them.

#include <cstdint>
#include <optional>

#include "simulator/mapping/iteration_model.h"

namespace foretrace {

// Keeps references to both.
class GroupCosts {
 public:
  GroupCosts(const ParallelMapping& mapping, const ClusterParameters& cluster)
      : m_(mapping), p_(cluster) {}

  // Bytes a second of a group whose ranks span `devices` neighbours: within a node, or by each
  // device's adapter.
  double Between(int32_t devices) const;
  // Over the tensor-parallel group, whose ranks are neighbours: an all-reduce, or under sequence
  // parallelism an all-gather and a reduce-scatter, which switches do not speed up. Beyond a node
  // there are as many rings as adapters, each of which enters the node by one adapter and leaves it
  // by another; adapters send and receive at once.
  double TensorReduction(double bytes) const;
  // The same without sequence parallelism.
  double TensorAllReduce(double bytes) const;
  // What streams wait for each other around a collective: from the kernels before it to its own
  // stream, and back.
  double Handovers() const { return 2 * p_.stream_wait.seconds(); }
  // Of what goes to the experts, or to the other parts of the sequence.
  double ExpertAllToAll(double bytes) const;
  double ContextAllToAll(double bytes) const;
  // Every tensor-parallel rank sends its share; the receivers gather it within the node.
  double Transfer(double bytes) const;
  double ReplicaAllReduce(double bytes) const;
  // A few bytes over all devices of a stage: the latency of a tree up and down, along the devices
  // of a node and over the nodes (NCCL, src/graph/tuning.cc).
  double SmallAllReduce() const;
  // Devices from one that holds the same experts to the next.
  int32_t ExpertSpan() const { return m_.expert_width() * m_.expert; }
  // Of gradients that the weights' shards hold each in part, over the replicas (zero 2 and 3): a
  // reduce-scatter among the shards, then an all-reduce of each one's among the copies.
  double ReduceToShards(double bytes) const;
  // Once around a ring, an all-gather or a reduce-scatter of `bytes` in all; `span` devices lie
  // from one member to the next. The last byte takes a step to each other member, as NCCL's tuner
  // counts them (src/graph/tuning.cc).
  double RingPass(CollectiveOp op, int32_t ranks, int32_t span, double bytes) const;

 private:
  std::optional<double> Measured(CollectiveOp op, int32_t ranks, double bytes) const;
  double NodeAllReduce(int32_t ranks, double bytes) const;
  // Messages to members of the own node and of others go at once; the slower part counts. `width`
  // devices lie from one member to the next.
  double AllToAll(int32_t ranks, int32_t width, double bytes) const;
  // An all-gather and a reduce-scatter; where they were not measured, as much longer than the
  // all-reduce as by the network's closed forms.
  double NodePasses(int32_t ranks, double bytes) const;
  // Of each of the rings that run side by side: as many enter and leave a node as have members in
  // it, and share its adapters; within the node each device has its own links.
  double RingBandwidth(int32_t inside, int32_t nodes) const;

  const ParallelMapping& m_;
  const ClusterParameters& p_;
};

}  // namespace foretrace
