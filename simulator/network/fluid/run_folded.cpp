#include "simulator/network/fluid/run_folded.h"

#include <algorithm>

#include "simulator/network/fluid/solver.h"
#include "simulator/network/folded_exchange.h"

namespace foretrace {
namespace {

class FoldedRun {
 public:
  FoldedRun(const FoldedExchange& exchange, const TransferPlan& plan)
      : exchange_(exchange), plan_(plan), drained_(exchange.classes.size()) {
    for (const Bandwidth rate : exchange.links) solver_.AddLink(rate);
    for (const FoldedExchange::Class& c : exchange.classes) {
      routes_.push_back(solver_.AddRoute(c.links, c.counts));
    }
  }

  // One step from `time` on; nullopt: ranks are not done at the same time, so that they would enter
  // the next step one after the other.
  std::optional<RealSeconds> Step(RealSeconds time, RealBytes bytes, bool last) {
    std::vector<FluidSolver::FlowIndex> completed;
    solver_.AdvanceTo(time, completed);
    std::vector<uint32_t> classes;  // by flow
    for (uint32_t c = 0; c < routes_.size(); ++c) {
      const FluidSolver::FlowIndex flow = solver_.Start(routes_[c], bytes);
      classes.resize(std::max<size_t>(classes.size(), flow + 1));
      classes[flow] = c;
    }
    while (solver_.active_flows() > 0) {
      completed.clear();
      time = solver_.NextTime();
      solver_.AdvanceTo(time, completed);
      for (const FluidSolver::FlowIndex flow : completed) drained_[classes[flow]] = time;
    }
    return EndOfStep(last);
  }

 private:
  std::optional<RealSeconds> EndOfStep(bool last) const {
    std::vector<RealSeconds> done(static_cast<size_t>(exchange_.ranks_per_node));
    for (const FoldedExchange::Message& message : exchange_.messages) {
      const FoldedExchange::Class& c = exchange_.classes[message.in];
      const RealSeconds drained = drained_[message.in];
      const RealSeconds latency =
          c.latency * (c.inter ? plan_.latency_scale_inter : plan_.latency_scale_intra);
      RealSeconds& sender = done[static_cast<size_t>(message.from)];
      RealSeconds& receiver = done[static_cast<size_t>(message.to)];
      sender = std::max(sender, drained);
      receiver = std::max(receiver, drained + latency);
    }
    const auto [first, end] = std::ranges::minmax(done);
    if (!last && first != end) return std::nullopt;
    return end;
  }

  const FoldedExchange& exchange_;
  const TransferPlan& plan_;
  FluidSolver solver_;
  std::vector<FluidSolver::RouteIndex> routes_;
  std::vector<RealSeconds> drained_;  // when the messages of each class have left
};

}  // namespace

std::optional<RealSeconds> FoldedDuration(const Topology& topology, const TransferPlan& plan) {
  const std::optional<RealBytes> bytes = plan.schedule->BytesOfEveryPair();
  if (!bytes || !(*bytes > RealBytes())) return std::nullopt;
  const std::optional<FoldedExchange> exchange = FoldExchange(topology, plan.devices);
  if (!exchange) return std::nullopt;
  if (std::ranges::any_of(exchange->classes, [](const auto& c) { return c.links.empty(); })) {
    return std::nullopt;
  }
  FoldedRun run(*exchange, plan);
  std::optional<RealSeconds> time = plan.launch;
  for (int32_t step = 0; time && step < plan.schedule->steps(); ++step) {
    time = run.Step(*time, *bytes, step + 1 == plan.schedule->steps());
  }
  return time;
}

}  // namespace foretrace
