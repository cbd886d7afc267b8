#include "simulator/network/fluid/collapse.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "simulator/network/fluid/solver.h"

namespace foretrace {
namespace {

double ScaledLatency(const Topology& topology, const TransferPlan& plan, DeviceId from, DeviceId to,
                     const Route& route) {
  const bool inter = topology.node_of(from) != topology.node_of(to);
  return route.latency * (inter ? plan.latency_scale_inter : plan.latency_scale_intra);
}

// One rank of a ring: its link to the next.
struct Hop {
  double rate = 0;
  double latency = 0;
  bool operator==(const Hop&) const = default;
};

class RingCollapse {
 public:
  RingCollapse(const Topology& topology, const TransferPlan& plan)
      : topology_(topology), plan_(plan), schedule_(*plan.schedule) {}

  std::optional<double> Run() {
    if (schedule_.serial() || schedule_.steps() < 1 || schedule_.ranks() < 2) return std::nullopt;
    if (schedule_.SameStep(schedule_.steps() - 1) != 0 || !FindHops()) return std::nullopt;
    const size_t period = Period();
    const size_t p = period;
    std::vector<double> drained(p, plan_.launch);
    std::vector<double> delivered(p, plan_.launch);
    std::vector<double> previous(p);
    for (int32_t step = 0; step < schedule_.steps(); ++step) {
      std::swap(previous, delivered);  // previous: what the last step delivered from each rank
      for (size_t i = 0; i < p; ++i) {
        const double start = std::max(drained[i], previous[i == 0 ? p - 1 : i - 1]);
        drained[i] = start + bytes_ / hops_[i].rate;
        delivered[i] = drained[i] + hops_[i].latency;
      }
    }
    return *std::max_element(delivered.begin(), delivered.end());
  }

 private:
  // False unless each rank sends one message per lane to the same rank, all of one size, the ranks
  // form one cycle, and no link serves two ranks.
  bool FindHops() {
    const auto n = static_cast<size_t>(schedule_.ranks());
    std::vector<Send> sends;
    absl::flat_hash_map<LinkId, size_t> user;
    Route route;
    std::vector<bool> seen(n, false);
    int32_t rank = 0;
    for (size_t i = 0; i < n; ++i) {
      if (seen[static_cast<size_t>(rank)]) return false;
      seen[static_cast<size_t>(rank)] = true;
      int32_t to = -1;
      for (int32_t lane = 0; lane < schedule_.lanes(); ++lane) {
        sends.clear();
        schedule_.Sends(rank, lane, 0, sends);
        if (sends.size() != 1 || (to >= 0 && sends[0].to != to)) return false;
        if (bytes_ < 0) bytes_ = sends[0].bytes;
        if (sends[0].bytes != bytes_ || !(bytes_ > 0)) return false;
        to = sends[0].to;
      }
      const DeviceId a = plan_.devices[static_cast<size_t>(rank)];
      const DeviceId b = plan_.devices[static_cast<size_t>(to)];
      topology_.FindRoute(a, b, route);
      if (route.links.empty()) return false;
      Hop hop{FluidSolver::kNever, ScaledLatency(topology_, plan_, a, b, route)};
      for (LinkId link : route.links) {
        if (!user.try_emplace(link, i).second) return false;
        hop.rate = std::min(hop.rate, topology_.link_rate(link) / schedule_.lanes());
      }
      hops_.push_back(hop);
      rank = to;
    }
    return rank == 0;
  }

  // The smallest period of the hops around the ring.
  size_t Period() const {
    for (size_t p = 1; p < hops_.size(); ++p) {
      if (hops_.size() % p != 0) continue;
      bool periodic = true;
      for (size_t i = p; i < hops_.size() && periodic; ++i) periodic = hops_[i] == hops_[i - p];
      if (periodic) return p;
    }
    return hops_.size();
  }

  const Topology& topology_;
  const TransferPlan& plan_;
  const CollectiveSchedule& schedule_;
  double bytes_ = -1;
  std::vector<Hop> hops_;  // in ring order
};

class LockStepCollapse {
 public:
  LockStepCollapse(const Topology& topology, const TransferPlan& plan)
      : topology_(topology), plan_(plan), schedule_(*plan.schedule) {}

  std::optional<double> Run() {
    if (schedule_.serial() && schedule_.lanes() > schedule_.lane_stride()) return std::nullopt;
    if (schedule_.steps() < 1) return std::nullopt;
    std::vector<Alike> steps(static_cast<size_t>(schedule_.steps()));
    double time = plan_.launch;
    for (int32_t step = 0; step < schedule_.steps(); ++step) {
      Alike& alike = steps[static_cast<size_t>(step)];
      const int32_t same = schedule_.SameStep(step);
      if (same < step) {
        alike = steps[static_cast<size_t>(same)];
      } else if (!Solve(step, alike)) {
        return std::nullopt;
      }
      time = time + alike.bytes / alike.rate;
      time = time + alike.latency;
    }
    return time;
  }

 private:
  struct Alike {
    double bytes = -1;
    double latency = 0;
    double rate = 0;
  };

  bool Solve(int32_t step, Alike& alike) const {
    FluidSolver solver;
    absl::flat_hash_map<LinkId, FluidSolver::LinkIndex> links;
    std::vector<FluidSolver::FlowIndex> flows;
    std::vector<Send> sends;
    Route route;
    for (int32_t lane = 0; lane < schedule_.lanes(); ++lane) {
      for (int32_t rank = 0; rank < schedule_.ranks(); ++rank) {
        sends.clear();
        schedule_.Sends(rank, lane, step, sends);
        if (sends.empty() || schedule_.Receives(rank, lane, step) == 0) return false;
        for (const Send& send : sends) {
          const DeviceId a = plan_.devices[static_cast<size_t>(rank)];
          const DeviceId b = plan_.devices[static_cast<size_t>(send.to)];
          topology_.FindRoute(a, b, route);
          const double latency = ScaledLatency(topology_, plan_, a, b, route);
          if (alike.bytes < 0) {
            alike.bytes = send.bytes;
            alike.latency = latency;
          }
          if (!(send.bytes > 0) || route.links.empty() || send.bytes != alike.bytes ||
              latency != alike.latency) {
            return false;
          }
          for (LinkId& link : route.links) {
            const auto [it, fresh] = links.try_emplace(link, 0);
            if (fresh) it->second = solver.AddLink(topology_.link_rate(link));
            link = it->second;
          }
          flows.push_back(solver.Start(solver.AddRoute(route.links), send.bytes));
        }
      }
    }
    alike.rate = solver.Rate(flows.front());
    return std::all_of(flows.begin(), flows.end(), [&](FluidSolver::FlowIndex flow) {
      return solver.Rate(flow) == alike.rate;
    });
  }

  const Topology& topology_;
  const TransferPlan& plan_;
  const CollectiveSchedule& schedule_;
};

}  // namespace

std::optional<double> CollapsedDuration(const Topology& topology, const TransferPlan& plan) {
  if (const auto ring = RingCollapse(topology, plan).Run()) return ring;
  return LockStepCollapse(topology, plan).Run();
}

}  // namespace foretrace
