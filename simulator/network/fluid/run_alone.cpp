#include "simulator/network/fluid/run_alone.h"

#include <fmt/format.h>

#include <algorithm>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/network/fluid/collapse.h"
#include "simulator/network/fluid/fluid_backend.h"
#include "simulator/network/fluid/run_folded.h"
#include "simulator/network/fluid/run_unshared.h"

namespace foretrace {
namespace {

// Flows at a time, beyond which their state would take gigabytes.
constexpr int64_t kMaxFlows = int64_t{1} << 23;
// Pairs that exchange at a time. Each has a route of its own, and every completion shares links
// anew: a million take minutes.
constexpr int64_t kMaxPairs = int64_t{1} << 20;
// Between two reports of progress: some ten milliseconds.
constexpr int64_t kEventsBetween = int64_t{1} << 16;

}  // namespace

absl::Status CheckInFlight(const TransferPlan& plan) {
  const CollectiveSchedule& schedule = *plan.schedule;
  const int64_t at_a_time = schedule.flows() / std::max(1, schedule.steps());
  if (plan.algorithm == Algorithm::kDirect && at_a_time > kMaxPairs) {
    return Infeasible(
        "an exchange of {} pairs of {} ranks at a time, whose nodes cannot change places: the flow "
        "of each is simulated, which is done for at most {}; use --network fitted, or fewer ranks",
        at_a_time, schedule.ranks(), kMaxPairs);
  }
  if (int64_t{schedule.lanes()} * schedule.ranks() <= kMaxFlows && at_a_time <= kMaxFlows) {
    return absl::OkStatus();
  }
  return Infeasible(
      "a collective by algorithm {} on {} ranks: {} messages in {} steps are more than can be in "
      "flight at a time ({}); use --network fitted, or another algorithm",
      Name(plan.algorithm), schedule.ranks(), schedule.flows(), schedule.steps(), kMaxFlows);
}

absl::StatusOr<PlanRun> RunAlone(const Topology& topology, const TransferPlan& plan, bool collapse,
                                 const FlowProgress& progress) {
  PlanRun run;
  run.flows = plan.schedule->flows();
  if (collapse) {
    auto time = FoldedDuration(topology, plan);
    if (!time) time = CollapsedDuration(topology, plan);
    if (!time) {
      FORETRACE_ASSIGN_OR_RETURN(time, UnsharedDuration(topology, plan, progress));
    }
    if (time) {
      run.time = *time;
      run.collapsed = true;
      return run;
    }
  }
  FORETRACE_RETURN_IF_ERROR(CheckInFlight(plan));
  ScheduleRunner runner;
  FluidBackend backend(topology, runner);
  runner.set_backend(&backend);
  runner.Begin(0, plan, RealSeconds());
  // A message is launched, drained and delivered.
  constexpr int64_t kEventsOfMessage = 3;
  int64_t told = 0;
  while (!runner.has_finished()) {
    if (progress && backend.events() >= told + kEventsBetween) {
      told = backend.events();
      if (!progress(told / kEventsOfMessage, run.flows)) {
        return absl::CancelledError("interrupted while messages were simulated");
      }
    }
    if (!backend.RunBatch()) {
      return absl::InternalError(
          fmt::format("the network simulation stalled: {}", runner.DescribeRunning()));
    }
  }
  run.time = runner.TakeFinished().front().time;
  run.events = backend.events();
  return run;
}

}  // namespace foretrace
