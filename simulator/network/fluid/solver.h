#pragma once
// Max-min fair sharing of links by flows, solved incrementally. Knows links, routes and bytes; no
// topology and no collectives. Holds no global state: any number of solvers may live side by side.
//
// Flows that share links, directly or through others, form a component. A start or a completion
// re-solves only the components that it touches (the selective update of SimGrid's LMM solver), and
// only the earliest completion of a component waits in the event queue.

#include <cstdint>
#include <span>
#include <vector>

#include "simulator/base/real_quantities.h"
#include "simulator/network/bucket_queue.h"

namespace foretrace {

class FluidSolver {
 public:
  using LinkIndex = uint32_t;
  using RouteIndex = uint32_t;
  using FlowIndex = uint32_t;
  static constexpr RealSeconds kNever = RealSeconds::Infinite();

  // `capacity` must be positive.
  LinkIndex AddLink(Bandwidth capacity);
  // At least one link; a link may not appear twice.
  RouteIndex AddRoute(std::span<const LinkIndex> links) { return AddRoute(links, {}); }
  // A flow on this route stands for many that are alike on links that are alike: for `counts[i]` of
  // them on each of the links that links[i] stands for. It has the rate and the end, to the bit,
  // that each of them would have.
  RouteIndex AddRoute(std::span<const LinkIndex> links, std::span<const uint32_t> counts);
  // Forgets the routes that no active flow uses. All route indices become invalid.
  void DropIdleRoutes();
  size_t route_pool_size() const { return route_links_.size(); }

  RealSeconds now() const { return RealSeconds(now_); }
  size_t active_flows() const { return active_; }
  // A flow of `bytes` > 0 that starts now. The index is reused after the flow has completed.
  FlowIndex Start(RouteIndex route, RealBytes bytes);
  // No flow completes before this time, given the flows started so far; often, but not always, one
  // does at it. kNever: none are active.
  RealSeconds NextTime();
  // Moves to `time`, which may not lie after NextTime(), and appends the flows that complete there.
  void AdvanceTo(RealSeconds time, std::vector<FlowIndex>& completed);
  // Current rate of an active flow.
  Bandwidth Rate(FlowIndex flow);

 private:
  // Inside, times, bytes and rates are bare numbers in seconds, bytes and bytes per second: what
  // the inner loops of a solve go through.
  static constexpr double kEndless = BucketQueue<int>::kNever;
  static constexpr uint32_t kNone = 0xffffffffu;
  struct Link {
    double capacity = 0;
    uint32_t component = kNone;  // valid while the version matches
    uint32_t component_version = 0;
    // Scratch of one solve.
    uint32_t epoch = 0;
    uint32_t parent = 0;  // union-find over links
    uint32_t flows = 0;
    uint32_t next_component = kNone;
    double share = 0;
  };
  struct Flow {
    double remaining = 0;  // bytes at `updated`
    double rate = 0;
    double updated = 0;
    double finish = kEndless;
    RouteIndex route = 0;
    uint32_t next = kNone;  // in the component
    bool active = false;
    bool fixed = false;  // scratch
  };
  struct Component {
    double time = kEndless;
    double share = 0;  // of its tightest link
    uint32_t head = kNone;
    uint32_t version = 0;
    bool uniform = true;
  };
  struct Due {
    uint32_t component;
    uint32_t version;
  };
  struct Share {
    double share;
    uint32_t link;
  };
  struct RouteSpan {
    uint32_t first;
    uint32_t count;
  };

  std::span<const LinkIndex> LinksOf(const Flow& flow) const {
    const RouteSpan& span = routes_[flow.route];
    return {route_links_.data() + span.first, span.count};
  }
  // Flows of the i-th link of a route.
  uint32_t CountOf(const Flow& flow, size_t i) const {
    return route_counts_.empty() ? 1 : route_counts_[routes_[flow.route].first + i];
  }
  void FixRate(Flow& flow, double rate, size_t& unfixed);
  uint32_t Root(uint32_t link);
  void Dissolve(uint32_t component);
  void Touch(FlowIndex flow);
  uint32_t NewComponent();
  void Solve();
  void FormComponents();
  void GatherMembers(const Component& component);
  void SolveGeneral(const Component& component);
  void SetRate(Flow& flow, double rate);

  double now_ = 0;
  size_t active_ = 0;
  uint32_t epoch_ = 0;
  std::vector<Link> links_;
  std::vector<RouteSpan> routes_;
  std::vector<LinkIndex> route_links_;
  std::vector<uint32_t> route_counts_;  // beside route_links_; empty: all are 1
  std::vector<Flow> flows_;
  std::vector<FlowIndex> free_flows_;
  std::vector<Component> components_;
  std::vector<uint32_t> free_components_;
  BucketQueue<Due> due_;
  // Work of the pending solve, and its scratch.
  std::vector<FlowIndex> touched_;
  std::vector<LinkIndex> touched_links_;
  std::vector<uint32_t> new_components_;
  std::vector<Due> popped_;
  std::vector<FlowIndex> member_flows_;
  std::vector<LinkIndex> member_links_;
  std::vector<uint32_t> offsets_;
  std::vector<uint32_t> fill_;
  std::vector<FlowIndex> flows_of_link_;
  std::vector<double> left_;
  std::vector<Share> heap_;
};

}  // namespace foretrace
