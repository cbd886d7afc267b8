#include "simulator/network/fluid/collapse.h"

#include "absl/container/flat_hash_map.h"
#include "simulator/network/fluid/solver.h"

namespace foretrace {
namespace {

RealSeconds ScaledLatency(const Topology& topology, const TransferPlan& plan, DeviceId from,
                          DeviceId to, const Route& route) {
  const bool inter = topology.node_of(from) != topology.node_of(to);
  return RealSeconds(route.latency) * (inter ? plan.latency_scale_inter : plan.latency_scale_intra);
}

class LockStepCollapse {
 public:
  LockStepCollapse(const Topology& topology, const TransferPlan& plan)
      : topology_(topology), plan_(plan), schedule_(*plan.schedule) {}

  std::optional<RealSeconds> Run() {
    if (schedule_.serial() && schedule_.lanes() > 1) return std::nullopt;
    if (schedule_.steps() < 1) return std::nullopt;
    std::vector<Alike> steps(static_cast<size_t>(schedule_.steps()));
    RealSeconds time = plan_.launch;
    for (int32_t step = 0; step < schedule_.steps(); ++step) {
      Alike& alike = steps[static_cast<size_t>(step)];
      const int32_t same = schedule_.SameStep(step);
      if (same < step) {
        alike = steps[static_cast<size_t>(same)];
      } else if (!Solve(step, alike)) {
        return std::nullopt;
      }
      time += *alike.bytes / alike.rate;
      time += alike.latency;
    }
    return time;
  }

 private:
  struct Alike {
    std::optional<RealBytes> bytes;  // nullopt: no flow yet
    RealSeconds latency;
    Bandwidth rate;
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
          const RealSeconds latency = ScaledLatency(topology_, plan_, a, b, route);
          if (!alike.bytes) {
            alike.bytes = send.bytes;
            alike.latency = latency;
          }
          if (!(send.bytes > RealBytes()) || route.links.empty() || send.bytes != alike.bytes ||
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

std::optional<RealSeconds> CollapsedDuration(const Topology& topology, const TransferPlan& plan) {
  return LockStepCollapse(topology, plan).Run();
}

}  // namespace foretrace
