#include "simulator/replay/wait_interval.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "simulator/base/status_macros.h"
#include "simulator/engine/wait_readings.h"
#include "simulator/replay/replay_check.h"
#include "simulator/replay/run.h"
#include "simulator/replay/step_report.h"

namespace foretrace {
namespace {

constexpr double kNegligible = 0.01;  // of the step

bool HasUnshownWaits(const CompiledJob& job) {
  return std::ranges::any_of(job.unshown, [](const UnshownItemWaits& u) {
    return !u.chosen.empty() || !u.latest.empty() || !u.others.empty();
  });
}

WaitInterval At(SimTime time) { return {time, time, time}; }

void Widen(WaitInterval& interval, SimTime time) {
  interval.least = std::min(interval.least, time);
  interval.most = std::max(interval.most, time);
}

double Width(const WaitInterval& interval) {
  return interval.as_taken > SimTime()
             ? (interval.most - interval.least).us() / interval.as_taken.us()
             : 0;
}

// By rank; zero where it has no such iteration.
std::vector<SimTime> MarkedTimes(const Prediction& prediction, int64_t iteration) {
  std::vector<SimTime> times;
  for (const PredictedRank& rank : prediction.ranks) {
    times.emplace_back();
    for (const PredictedIteration& it : rank.iterations) {
      if (it.number == iteration) times.back() = it.predicted_end - it.predicted_start;
    }
  }
  return times;
}

}  // namespace

absl::StatusOr<std::optional<WaitIntervals>> IntervalsOfWaits(
    const TraceStore& store, const SimulationSetup& setup, const Prediction& prediction,
    int64_t iteration, const std::optional<StepSummary>& step, const Prediction* unedited) {
  if (prediction.job.symbolic || prediction.job.semantics != Semantics::kFull ||
      !HasUnshownWaits(prediction.job) ||
      (setup.network() != nullptr && setup.network()->contends()) ||
      (ReplaysRecording(setup) && setup.what_if().empty())) {
    return std::nullopt;
  }
  const auto time_of = [&](const Prediction& p) -> absl::StatusOr<SimTime> {
    if (!step.has_value()) return IterationTimes(p)[iteration];
    std::vector<std::string> same_notes;
    FORETRACE_ASSIGN_OR_RETURN(const auto summary,
                               SummarizeStep(store, p, iteration, setup.network(), same_notes));
    return summary.has_value() ? summary->period : step->period;
  };
  WaitIntervals intervals;
  FORETRACE_ASSIGN_OR_RETURN(const SimTime as_taken, time_of(prediction));
  intervals.step = At(as_taken);
  std::vector<WaitInterval> marked;  // by rank
  for (const SimTime time : MarkedTimes(prediction, iteration)) marked.push_back(At(time));
  FORETRACE_ASSIGN_OR_RETURN(const CompiledJob job,
                             JobBeforeEdits(store, setup, prediction, unedited));
  // Waits for nothing, for the latest, and the other readings.
  for (size_t reading = 0; reading < 2 + OtherReadings(job); ++reading) {
    CompiledJob other = job;
    if (reading < 2) {
      ReadUnshownWaits(job, reading == 0 ? WaitReading::kNothing : WaitReading::kLatest,
                       other.program);
    } else {
      ReadOtherwise(job, reading - 2, other.program);
    }
    const absl::StatusOr<Prediction> read =
        SimulateJob(store, setup, std::move(other), setup.network());
    if (!read.ok()) continue;  // moved work and that reading exclude each other: a deadlock
    FORETRACE_ASSIGN_OR_RETURN(const SimTime time, time_of(*read));
    Widen(intervals.step, time);
    const std::vector<SimTime> times = MarkedTimes(*read, iteration);
    for (size_t r = 0; r < marked.size(); ++r) Widen(marked[r], times[r]);
  }
  intervals.marked = *std::ranges::max_element(marked, {}, Width);
  for (const RankCompileReport& report : prediction.job.reports) {
    intervals.step.waits += static_cast<int64_t>(report.sync.unshown.calls.size());
    intervals.step.ambiguous += static_cast<int64_t>(report.sync.unshown.ambiguous.size());
  }
  return intervals;
}

std::optional<std::string> DoubtOfWaits(const TraceStore& store, const Prediction& prediction,
                                        const WaitIntervals& intervals) {
  const bool of_step = Width(intervals.step) > kNegligible;
  if (!of_step && Width(intervals.marked) <= kNegligible) return std::nullopt;
  const WaitInterval& shown = of_step ? intervals.step : intervals.marked;
  std::string first;
  for (size_t r = 0; r < store.ranks().size() && first.empty(); ++r) {
    for (const auto* calls : {&prediction.job.reports[r].sync.unshown.calls,
                              &prediction.job.reports[r].sync.unshown.ambiguous}) {
      if (first.empty() && !calls->empty()) {
        first = DescribeCall(store, store.ranks()[r], calls->front());
      }
    }
  }
  return fmt::format(
      "{} waits held nothing up when recorded, and nothing shows what they wait for{} (the first: "
      "{}); by what they can mean, the {} takes between {:.3f} and {:.3f} ms; profiles that name "
      "events say it",
      intervals.step.waits,
      intervals.step.ambiguous == 0
          ? ""
          : fmt::format(", and what {} others waited for can be read in more than one way",
                        intervals.step.ambiguous),
      first, of_step ? "step" : "iteration", shown.least.us() * 1e-3, shown.most.us() * 1e-3);
}

}  // namespace foretrace
