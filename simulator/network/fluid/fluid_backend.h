#pragma once

#include <algorithm>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "simulator/base/real_quantities.h"
#include "simulator/network/bucket_queue.h"
#include "simulator/network/flow_backend.h"
#include "simulator/network/fluid/solver.h"

namespace foretrace {

// Flows on the own max-min fair solver. Memory grows with active flows and with the links and
// routes in use, not with the size of the platform.
class FluidBackend : public FlowBackend {
 public:
  // Both must outlive the backend.
  FluidBackend(const Topology& topology, FlowSink& sink) : topology_(topology), sink_(sink) {}

  RealSeconds now() const override { return now_; }
  void Launch(DeviceId from, DeviceId to, RealBytes bytes, LatencyScale scale,
              uint32_t token) override;
  void CallAt(RealSeconds time, uint32_t token) override;
  // When RunBatch will act next; kNever of the solver: not at all.
  RealSeconds NextTime() { return std::min(solver_.NextTime(), RealSeconds(queue_.NextTime())); }
  // Advances to the next time at which something happens and reports it; false: nothing will.
  bool RunBatch();
  size_t active_flows() const { return solver_.active_flows(); }
  // Flow starts, completions, deliveries and timers handled so far.
  int64_t events() const { return events_; }

 private:
  enum class Kind : uint8_t { kDrained, kDelivered, kTimer };
  struct Event {
    uint32_t token;
    Kind kind;
  };
  struct RouteInfo {
    FluidSolver::RouteIndex index = 0;
    bool empty = true;  // no links: a device to itself
    RealSeconds latency;
    bool inter = false;  // leaves the node
  };
  struct LastRoute {
    DeviceId to = -1;
    RouteInfo route;
  };
  struct FlowInfo {
    uint32_t token = 0;
    RealSeconds latency;
  };

  const RouteInfo& RouteBetween(DeviceId from, DeviceId to);
  RouteInfo BuildRoute(DeviceId from, DeviceId to);
  void Push(RealSeconds time, Event event) { queue_.Push(time.seconds(), event); }
  void HandleEvents();

  const Topology& topology_;
  FlowSink& sink_;
  RealSeconds now_;
  int64_t events_ = 0;
  FluidSolver solver_;
  BucketQueue<Event> queue_;     // by seconds
  std::vector<FlowInfo> flows_;  // by solver index
  absl::flat_hash_map<LinkId, FluidSolver::LinkIndex> links_;
  absl::flat_hash_map<uint64_t, RouteInfo> routes_;
  static constexpr size_t kRoutePoolLimit = size_t{1} << 22;
  size_t route_pool_limit_ = kRoutePoolLimit;  // links of all routes, before idle ones are dropped
  std::vector<LastRoute> last_;  // by source device: most algorithms repeat their target
  std::vector<Event> batch_;
  std::vector<FluidSolver::FlowIndex> completed_;
  Route scratch_;
};

}  // namespace foretrace
