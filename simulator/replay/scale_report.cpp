#include "simulator/replay/scale_report.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "simulator/base/status_macros.h"
#include "simulator/engine/cpu_scale.h"
#include "simulator/replay/run.h"
#include "simulator/replay/step_report.h"

namespace foretrace {
namespace {

// The job as it is before it grows.
absl::StatusOr<CompiledJob> JobOf(const TraceStore& store, const SimulationSetup& setup) {
  FORETRACE_ASSIGN_OR_RETURN(CompiledJob job, CompileJob(store, setup, setup.compile()));
  ScaleCpu(job.program, setup.cpu_scale());
  return job;
}

}  // namespace

absl::StatusOr<std::optional<ScaleOutSummary>> SummarizeScaleOut(
    const TraceStore& store, const SimulationSetup& setup, const Prediction& prediction,
    int64_t iteration, const std::optional<StepSummary>& step) {
  if (!setup.what_if().scale_out().has_value()) return std::nullopt;
  const auto time_of = [&](const Prediction& p) -> absl::StatusOr<SimTime> {
    if (!step.has_value()) return IterationTimes(p)[iteration];
    std::vector<std::string> same_notes;
    FORETRACE_ASSIGN_OR_RETURN(const auto summary,
                               SummarizeStep(store, p, iteration, setup.network(), same_notes));
    return summary.has_value() ? summary->period : step->period;
  };
  ScaleOutSummary out;
  out.ranks = setup.what_if().scale_out()->ranks();
  out.recorded = RecordedRanks(store);
  out.at_hand = static_cast<int32_t>(store.ranks().size());
  FORETRACE_ASSIGN_OR_RETURN(out.expected, time_of(prediction));
  out.lower = out.upper = out.expected;
  FORETRACE_ASSIGN_OR_RETURN(const CompiledJob job, JobOf(store, setup));
  {
    CompiledJob whole = job;
    const WhatIf before = setup.what_if().WithoutScaleOut();
    FORETRACE_RETURN_IF_ERROR(before.Apply(store, whole, setup.sizes(), whole.program));
    FORETRACE_ASSIGN_OR_RETURN(
        const ScaleOut::Summary summary,
        setup.what_if().scale_out()->Scale(store, whole, setup.sizes(), whole.program));
    for (const GroupGrowth& g : summary.groups) {
      out.groups.push_back({job.communicators.communicators[g.communicator].name, g.from, g.to,
                            g.rendezvous, g.transfers_before, g.transfers_after, g.later,
                            g.supposed});
      if (g.supposed) out.supposed_slowdown = kSlowestRank;
    }
    out.optimizer_before = summary.optimizer_before;
    out.optimizer_after = summary.optimizer_after;
  }
  if (out.groups.empty()) return out;
  for (const LastArrival last : {LastArrival::kAtHand, LastArrival::kLate}) {
    CompiledJob other = job;
    FORETRACE_RETURN_IF_ERROR(
        setup.what_if().With(last).Apply(store, other, setup.sizes(), other.program));
    FORETRACE_ASSIGN_OR_RETURN(const Prediction read,
                               Replay(store, std::move(other), setup.network()));
    FORETRACE_ASSIGN_OR_RETURN(const SimTime time, time_of(read));
    out.lower = std::min(out.lower, time);
    out.upper = std::max(out.upper, time);
  }
  return out;
}

}  // namespace foretrace
