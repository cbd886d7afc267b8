#include "simulator/network/fluid/run_alone.h"

#include <fmt/format.h>

#include "simulator/network/fluid/collapse.h"
#include "simulator/network/fluid/fluid_backend.h"

namespace foretrace {

absl::StatusOr<PlanRun> RunAlone(const Topology& topology, const TransferPlan& plan,
                                 bool collapse) {
  PlanRun run;
  run.flows = plan.schedule->flows();
  if (collapse) {
    if (const auto seconds = CollapsedDuration(topology, plan)) {
      run.seconds = *seconds;
      run.collapsed = true;
      return run;
    }
  }
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
