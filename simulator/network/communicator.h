#pragma once
// What algorithms and cost formulas need to know about a set of ranks on a topology; computed once
// per set.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "simulator/base/collective_op.h"
#include "simulator/base/dtype.h"
#include "simulator/base/real_quantities.h"
#include "simulator/network/collective/schedule.h"
#include "simulator/network/flow_backend.h"
#include "simulator/topology/topology.h"

namespace foretrace {

struct Communicator {
  std::vector<DeviceId> devices;  // per member
  std::vector<std::vector<int32_t>> ring_orders;
  std::vector<std::vector<int32_t>> chain_orders;  // for trees and chains
  std::vector<int32_t> node_of;                    // per member
  int32_t nodes = 1;                               // that hold a member
  int32_t ranks_per_node = 1;                      // the most on one node
  // Ranks divide evenly over nodes, in member order with nodes slowest.
  bool blocked = true;
  std::vector<int32_t> dimensions;  // for hierarchical algorithms, first fastest
  Bandwidth ring_bandwidth;         // bus bandwidth of the rings
  Bandwidth tree_bandwidth;         // the same for trees and chains
  int32_t channels = 1;             // NCCL's: parallel pipelines that share the data
  RealSeconds ring_latency_intra;   // mean over hops of that kind
  RealSeconds ring_latency_inter;
  double ring_inter_share = 0;  // share of ring hops that leave a node

  int32_t size() const { return static_cast<int32_t>(devices.size()); }
};

// Whether NVSwitches of its only node add up what an all-reduce sums (NVLink
// SHARP, since Hopper). Two ranks would exchange more than their data.
bool ReducesInSwitch(const Communicator& communicator, const PlatformSpec& platform, DType dtype);
// Channels that a large collective, or a message to one neighbour, runs on, each a thread block
// that holds a multiprocessor.
int32_t HeldChannels(const Communicator& communicator, const PlatformSpec& platform,
                     CollectiveOp op, DType dtype);

// Not thread-safe. `topology` must outlive it.
class CommunicatorCache {
 public:
  explicit CommunicatorCache(const Topology& topology) : topology_(topology) {}
  // Errors: no members, a member twice, a rank without device.
  absl::StatusOr<std::shared_ptr<const Communicator>> Get(const std::vector<int32_t>& members);

 private:
  const Topology& topology_;
  absl::flat_hash_map<std::vector<int32_t>, std::shared_ptr<const Communicator>> cache_;
};

// What the sends of one step take to drain if they start together, and their longest latency: the
// most loaded link decides.
struct StepCost {
  RealSeconds drain;
  RealSeconds latency;
};

// What filling a schedule's pipelines takes before all their hops stream: the longest lane,
// each hop but the slowest one (which the stream itself holds) with a piece at the rate that the
// most loaded link of its route leaves it while the hops of all lanes stream. Proportional to the
// pieces, so that it never falls as they grow.
RealSeconds FillTime(const CollectiveSchedule& schedule, std::span<const DeviceId> devices,
                     const Topology& topology, LatencyScale scale);

// Sums, over the steps of a schedule run one after the other, the drain time of the most loaded
// link and the longest latency. Equal to the fluid result where all ranks move in lock-step.
RealSeconds StepSum(const CollectiveSchedule& schedule, std::span<const DeviceId> devices,
                    const Topology& topology);

}  // namespace foretrace
