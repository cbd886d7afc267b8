#include "simulator/replay/wait_interval.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "simulator/base/counted.h"
#include "simulator/base/status_macros.h"
#include "simulator/engine/wait_readings.h"
#include "simulator/replay/replay_check.h"
#include "simulator/replay/run.h"
#include "simulator/replay/step_report.h"

namespace foretrace {
namespace {

// Of the step.
constexpr double kDoubtful = 0.01;
constexpr double kNegligible = 0.001;
// What the file of a device states of launches is typical of recordings, which differ by as much.
constexpr double kLongerLaunch = 2.0;

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

using Reading = std::function<void(Program& program)>;

// Waits for nothing, for the latest, and the other readings; sends that do not wait, by each
// reading of the waits.
std::vector<Reading> ReadingsOf(const CompiledJob& job) {
  std::vector<Reading> readings;
  const bool waits = std::ranges::any_of(job.unshown, [](const UnshownItemWaits& u) {
    return !u.chosen.empty() || !u.latest.empty();
  });
  for (const WaitReading reading : {WaitReading::kNothing, WaitReading::kLatest}) {
    if (!waits) break;
    readings.emplace_back([&job, reading](Program& p) { ReadUnshownWaits(job, reading, p); });
  }
  for (size_t number = 0; number < OtherReadings(job); ++number) {
    readings.emplace_back([&job, number](Program& p) { ReadOtherwise(job, number, p); });
  }
  const size_t of_waits = readings.size();
  if (!job.assumed.empty()) readings.emplace_back([&job](Program& p) { ReadAsBuffered(job, p); });
  for (size_t i = 0; i < of_waits && !job.assumed.empty(); ++i) {
    readings.emplace_back([&job, of = readings[i]](Program& p) {
      of(p);
      ReadAsBuffered(job, p);
    });
  }
  return readings;
}

// Launches that take no time, and longer.
std::vector<Reading> ReadingsOfLaunches(const TraceStore& store, const CompiledJob& job) {
  std::vector<Reading> readings;
  if (UnshownLaunches(store, job) == 0) return readings;
  for (const double factor : {0.0, kLongerLaunch}) {
    readings.emplace_back([&, factor](Program& p) { ScaleUnshownLaunches(store, job, factor, p); });
  }
  return readings;
}

std::vector<Reading> ReadingsOfCopies(const TraceStore& store, const CompiledJob& job) {
  if (UnshownCopies(store, job.program) == 0) return {};
  return {[&](Program& p) { ReadCopiesAsBlocking(store, p); }};
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

// What the readings are of.
void Count(const CompiledJob& job, WaitInterval& interval) {
  for (const AssumedAwaits& assumed : job.assumed) {
    interval.sends += static_cast<int64_t>(assumed.awaits.size());
  }
  for (const RankCompileReport& report : job.reports) {
    interval.waits += static_cast<int64_t>(report.sync.unshown.calls.size());
    interval.ambiguous += static_cast<int64_t>(report.sync.unshown.ambiguous.size());
  }
}

// Where an interval is wider than `least` of what it is of.
std::optional<std::string> DescribeWaits(const TraceStore& store, const Prediction& prediction,
                                         const WaitIntervals& intervals, double least) {
  const bool of_step = Width(intervals.step) > least;
  if (!of_step && Width(intervals.marked) <= least) return std::nullopt;
  const WaitInterval& shown = of_step ? intervals.step : intervals.marked;
  const std::string what = of_step ? "the step"
                                   : fmt::format("iteration {} of rank {}", intervals.iteration,
                                                 store.ranks()[intervals.marked_rank].info().rank);
  std::string first;
  for (size_t r = 0; r < store.ranks().size() && first.empty(); ++r) {
    for (const auto* calls : {&prediction.job.reports[r].sync.unshown.calls,
                              &prediction.job.reports[r].sync.unshown.ambiguous}) {
      if (first.empty() && !calls->empty()) {
        first = DescribeCall(store, store.ranks()[r], calls->front());
      }
    }
  }
  std::vector<std::string> reasons;
  if (!first.empty()) {
    reasons.push_back(fmt::format(
        "{} held nothing up when recorded, and nothing shows what {} for{} (the first: {})",
        Counted(intervals.step.waits, "wait"), intervals.step.waits == 1 ? "it waits" : "they wait",
        intervals.step.ambiguous == 0
            ? ""
            : fmt::format(", and what {} waited for can be read in more than one way",
                          Counted(intervals.step.ambiguous, "other")),
        first));
  }
  if (intervals.step.sends > 0) {
    reasons.push_back(fmt::format("nothing shows whether {} sends wait for their receivers",
                                  intervals.step.sends));
  }
  if (intervals.copies > 0) {
    reasons.push_back(
        fmt::format("nothing shows whether the calls of {} copies return before these are done",
                    intervals.copies));
  }
  if (intervals.step.launches > 0) {
    reasons.push_back(fmt::format(
        "nothing shows how long {} launches take to reach a device that is idle, for each found it "
        "busy",
        intervals.step.launches));
  }
  return fmt::format("{}; by what they can mean, {} takes between {:.3f} and {:.3f} ms{}",
                     fmt::join(reasons, "; "), what, shown.least.us() * 1e-3,
                     shown.most.us() * 1e-3,
                     first.empty() ? "" : "; profiles that name events say it");
}

}  // namespace

absl::StatusOr<std::optional<WaitIntervals>> IntervalsOfWaits(
    const TraceStore& store, const SimulationSetup& setup, const Prediction& prediction,
    int64_t iteration, const std::optional<StepSummary>& step, const Prediction* unedited) {
  if (prediction.job.symbolic || prediction.job.semantics != Semantics::kFull ||
      (ReadingsOf(prediction.job).empty() && UnshownLaunches(store, prediction.job) == 0 &&
       UnshownCopies(store, prediction.job.program) == 0) ||
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
  const auto widen = [&](const Reading& read) -> absl::Status {
    CompiledJob other = job;
    read(other.program);
    const absl::StatusOr<Prediction> result =
        SimulateJob(store, setup, std::move(other), setup.network());
    // Moved work and that reading may exclude each other: a deadlock.
    if (!result.ok()) return absl::OkStatus();
    FORETRACE_ASSIGN_OR_RETURN(const SimTime time, time_of(*result));
    Widen(intervals.step, time);
    const std::vector<SimTime> times = MarkedTimes(*result, iteration);
    for (size_t r = 0; r < marked.size(); ++r) Widen(marked[r], times[r]);
    return absl::OkStatus();
  };
  // Whether that widens one of them by over 0.1 %.
  const auto widen_by = [&](const std::vector<Reading>& readings) -> absl::StatusOr<bool> {
    const auto widest = [&] { return Width(*std::ranges::max_element(marked, {}, Width)); };
    const double before = Width(intervals.step), marked_before = widest();
    for (const Reading& read : readings) FORETRACE_RETURN_IF_ERROR(widen(read));
    return Width(intervals.step) > before + kNegligible || widest() > marked_before + kNegligible;
  };
  FORETRACE_RETURN_IF_ERROR(widen_by(ReadingsOf(job)).status());
  FORETRACE_ASSIGN_OR_RETURN(const bool launches, widen_by(ReadingsOfLaunches(store, job)));
  if (launches) intervals.step.launches = UnshownLaunches(store, job);
  FORETRACE_ASSIGN_OR_RETURN(const bool copies, widen_by(ReadingsOfCopies(store, job)));
  if (copies) intervals.copies = UnshownCopies(store, job.program);
  if (!launches && !copies && ReadingsOf(job).empty()) return std::nullopt;
  const auto widest = std::ranges::max_element(marked, {}, Width);
  intervals.marked = *widest;
  intervals.marked_rank = static_cast<size_t>(widest - marked.begin());
  intervals.iteration = iteration;
  Count(job, intervals.step);
  return intervals;
}

std::optional<std::string> DoubtOfWaits(const TraceStore& store, const Prediction& prediction,
                                        const WaitIntervals& intervals) {
  return DescribeWaits(store, prediction, intervals, kDoubtful);
}

std::optional<std::string> NoteOfWaits(const TraceStore& store, const Prediction& prediction,
                                       const WaitIntervals& intervals) {
  return DescribeWaits(store, prediction, intervals, kNegligible);
}

}  // namespace foretrace
