#include "simulator/network/fluid/fluid_network.h"

#include <fmt/format.h>

#include <algorithm>

#include "simulator/base/status_macros.h"
#include "simulator/network/fluid/run_alone.h"

namespace foretrace {
namespace {

absl::Status Stalled(const ScheduleRunner& runner) {
  return absl::InternalError(
      fmt::format("the network simulation stalled: {}", runner.DescribeRunning()));
}

}  // namespace

FluidNetwork::FluidNetwork(const Topology& topology, NetworkOptions options)
    : planner_(topology, options), backend_(topology, runner_) {
  runner_.set_backend(&backend_);
}

absl::StatusOr<Estimate> FluidNetwork::IsolatedDuration(const TransferSpec& spec) {
  FORETRACE_ASSIGN_OR_RETURN(const PlannedRun alone, planner_.PlanAndRun(spec));
  FORETRACE_ASSIGN_OR_RETURN(const SimTime time, TransferTime(alone.run.time, spec));
  return Estimate{time, EstimateSource::kAnalytic};
}

absl::StatusOr<TransferHandle> FluidNetwork::Start(const TransferSpec& spec, SimTime start) {
  FORETRACE_ASSIGN_OR_RETURN(TransferPlan plan, planner_.Plan(spec));
  FORETRACE_RETURN_IF_ERROR(CheckInFlight(plan));
  // Completions were rounded to picoseconds, so `start` may lie a fraction before the solver's now.
  runner_.Begin(next_handle_, std::move(plan), std::max(RealSeconds(start), backend_.now()));
  return next_handle_++;
}

absl::StatusOr<std::optional<NetworkModel::Completion>> FluidNetwork::Next(SimTime limit) {
  if (completed_.empty()) {
    if (runner_.running() == 0) return std::nullopt;
    while (!runner_.has_finished()) {
      const RealSeconds next = backend_.NextTime();
      if (next == FluidSolver::kNever) return Stalled(runner_);
      FORETRACE_ASSIGN_OR_RETURN(const SimTime time, CompletionTime(next));
      if (time > limit) return std::nullopt;
      backend_.RunBatch();
    }
    for (const auto& finished : runner_.TakeFinished()) {
      FORETRACE_ASSIGN_OR_RETURN(const SimTime time, CompletionTime(finished.time));
      completed_.push_back({time, finished.transfer});
    }
    std::sort(completed_.begin(), completed_.end(),
              [](const Completion& a, const Completion& b) { return a.transfer < b.transfer; });
  }
  const Completion first = completed_.front();
  completed_.pop_front();
  return first;
}

}  // namespace foretrace
