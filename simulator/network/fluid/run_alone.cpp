#include "simulator/network/fluid/run_alone.h"

#include <fmt/format.h>

#include <algorithm>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/network/fluid/collapse.h"
#include "simulator/network/fluid/fluid_backend.h"
#include "simulator/network/fluid/run_folded.h"

namespace foretrace {
namespace {

// Flows at a time, beyond which their state would take gigabytes.
constexpr int64_t kMaxFlows = int64_t{1} << 23;

}  // namespace

absl::Status CheckInFlight(const TransferPlan& plan) {
  const CollectiveSchedule& schedule = *plan.schedule;
  if (int64_t{schedule.lanes()} * schedule.ranks() <= kMaxFlows &&
      schedule.flows() / std::max(1, schedule.steps()) <= kMaxFlows) {
    return absl::OkStatus();
  }
  return Infeasible(
      "a collective by algorithm {} on {} ranks: {} messages in {} steps are more than can be in "
      "flight at a time ({}); use --network fitted, or another algorithm",
      Name(plan.algorithm), schedule.ranks(), schedule.flows(), schedule.steps(), kMaxFlows);
}

absl::StatusOr<PlanRun> RunAlone(const Topology& topology, const TransferPlan& plan,
                                 bool collapse) {
  PlanRun run;
  run.flows = plan.schedule->flows();
  if (collapse) {
    auto seconds = FoldedDuration(topology, plan);
    if (!seconds) seconds = CollapsedDuration(topology, plan);
    if (seconds) {
      run.seconds = *seconds;
      run.collapsed = true;
      return run;
    }
  }
  FORETRACE_RETURN_IF_ERROR(CheckInFlight(plan));
  ScheduleRunner runner;
  FluidBackend backend(topology, runner);
  runner.set_backend(&backend);
  runner.Begin(0, plan, 0);
  while (!runner.has_finished()) {
    if (!backend.RunBatch()) {
      return absl::InternalError(
          fmt::format("the network simulation stalled: {}", runner.DescribeRunning()));
    }
  }
  run.seconds = runner.TakeFinished().front().time;
  run.events = backend.events();
  return run;
}

}  // namespace foretrace
