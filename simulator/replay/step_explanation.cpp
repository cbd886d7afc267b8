#include "simulator/replay/step_explanation.h"

#include <algorithm>
#include <optional>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/engine/executor.h"
#include "simulator/replay/absent_ranks.h"
#include "simulator/replay/communication_notes.h"
#include "simulator/replay/replay_check.h"
#include "simulator/replay/run.h"
#include "simulator/replay/scale/scale_report.h"
#include "simulator/replay/step_report.h"
#include "simulator/replay/wait_interval.h"

namespace foretrace {
namespace {

// Of a step, by which an answer is in doubt, and by which that is worth a note.
constexpr double kDoubtfulShare = 0.01;
constexpr double kNotableShare = 0.001;

// One iteration still shows how the recording began, which steady state does not: how far apart
// ranks were, how far ahead their CPUs.
void NoteUnsettledIteration(const Prediction& prediction, const Prediction& unedited,
                            const StepSummary& before, ReportOptions& report) {
  const int64_t step = *report.iteration;
  const auto off = [&](const Prediction& p, SimTime cpu_period) {
    const SimTime marked = IterationTimes(p)[step];
    return (std::max(marked, cpu_period) - std::min(marked, cpu_period)).us() /
           std::max(cpu_period.us(), 1e-3);
  };
  const double changed = off(prediction, report.step->cpu_period);
  if (changed <= off(unedited, before.cpu_period) + kDoubtfulShare) return;
  report.notes.push_back(fmt::format(
      "with the change, iteration {} from mark to mark ({:.1f} us) is not in steady state, where "
      "its CPU takes {:.1f} us: how far apart ranks and how far ahead CPUs were when recording "
      "began still shows in it; the step in steady state, which `predict` has, is without that",
      step, IterationTimes(prediction)[step].us(), report.step->cpu_period.us()));
}

// The reported step in steady state, and with --what-if its difference from the unedited one.
absl::Status AddStep(const TraceStore& store, const SimulationSetup& setup, Prediction& prediction,
                     Prediction* unedited, ReportOptions& report) {
  if (!report.iteration.has_value()) return absl::OkStatus();
  const int64_t step = *report.iteration;
  const bool marked =
      std::any_of(prediction.ranks.begin(), prediction.ranks.end(), [&](const PredictedRank& rank) {
        return std::any_of(rank.iterations.begin(), rank.iterations.end(),
                           [&](const PredictedIteration& it) { return it.number == step; });
      });
  if (!marked) return absl::OkStatus();  // which is an error of the report's
  FORETRACE_ASSIGN_OR_RETURN(report.step,
                             SummarizeStep(store, prediction, step, setup.network(), report.notes));
  NoteBlockedShare(prediction, step, report.notes);
  DeviceWindows windows = WindowsOfDevice(store, prediction, step, report.step);
  report.window = windows.window;
  report.completions = std::move(windows.ranks);
  if (unedited == nullptr) return absl::OkStatus();
  report.unedited = IterationTimes(*unedited);
  if (report.step.has_value()) {
    std::vector<std::string> same_notes;
    FORETRACE_ASSIGN_OR_RETURN(const auto before,
                               SummarizeStep(store, *unedited, step, setup.network(), same_notes));
    if (before.has_value()) {
      report.step->unedited_period = before->period;
      NoteUnsettledIteration(prediction, *unedited, *before, report);
    }
  }
  const bool by_completion = ExplainedRun::HasPeriod(store, prediction, step) &&
                             ExplainedRun::HasPeriod(store, *unedited, step);
  FORETRACE_ASSIGN_OR_RETURN(const ExplainedRun from,
                             ExplainedRun::Make(store, *unedited, step, by_completion));
  FORETRACE_ASSIGN_OR_RETURN(const ExplainedRun to,
                             ExplainedRun::Make(store, prediction, step, by_completion));
  report.causes = Differences(from, to);
  report.causes_by_completion = by_completion;
  return absl::OkStatus();
}

void AddDoubt(const std::optional<std::string>& doubt, ReportOptions& report) {
  if (!doubt.has_value()) return;
  report.doubt = report.doubt.has_value() ? *report.doubt + "; " + *doubt : *doubt;
}

// A what-if whose answer hangs on waits that nobody knows the meaning of is in doubt.
absl::Status AddWaitInterval(const TraceStore& store, const SimulationSetup& setup,
                             const Prediction& prediction, const Prediction* unedited,
                             ReportOptions& report) {
  if (!report.iteration.has_value()) return absl::OkStatus();
  FORETRACE_ASSIGN_OR_RETURN(
      const std::optional<WaitIntervals> intervals,
      IntervalsOfWaits(store, setup, prediction, *report.iteration, report.step, unedited));
  if (!intervals.has_value()) return absl::OkStatus();
  report.unshown = intervals->step;
  const std::optional<std::string> doubt = DoubtOfWaits(store, prediction, *intervals);
  AddDoubt(doubt, report);
  if (!doubt.has_value()) {
    const std::optional<std::string> note = NoteOfWaits(store, prediction, *intervals);
    if (note.has_value()) report.notes.push_back(*note);
  }
  return absl::OkStatus();
}

// Clocks that may be apart after all, by how much of the step.
void AddClockNoise(const Prediction& prediction, ReportOptions& report) {
  const SimTime step =
      report.step.has_value() ? report.step->period : LongestIteration(prediction.ranks);
  const std::optional<std::string> doubt =
      NoteOfClockNoise(prediction.job, step.ScaledBy(kDoubtfulShare));
  AddDoubt(doubt, report);
  const std::optional<std::string> note =
      NoteOfClockNoise(prediction.job, step.ScaledBy(kNotableShare));
  if (!doubt.has_value() && note.has_value()) report.notes.push_back(*note);
}

}  // namespace

SimTime LongestIteration(const std::vector<PredictedRank>& ranks) {
  SimTime longest;
  for (const PredictedRank& rank : ranks) {
    for (const PredictedIteration& it : rank.iterations) {
      longest = std::max(longest, it.predicted_end - it.predicted_start);
    }
  }
  return longest;
}

absl::Status NoteAlignedStart(const TraceStore& store, const SimulationSetup& setup,
                              Prediction& prediction, std::vector<std::string>& notes) {
  SimTime skew;
  for (const RankCompileReport& report : prediction.job.reports) {
    skew = std::max(skew, report.start_skew);
  }
  const CompileOptions& given = setup.compile();
  const bool together_already =
      std::ranges::find(setup.left_out(), Ingredient::kStartSkew) != setup.left_out().end();
  if (skew == SimTime() || together_already || given.semantics != Semantics::kFull ||
      given.model_communication) {
    return absl::OkStatus();
  }
  std::vector<RankProgram>& ranks = prediction.job.program.ranks;
  std::vector<SimTime> starts;
  for (size_t r = 0; r < ranks.size(); ++r) {
    starts.push_back(ranks[r].start);
    ranks[r].start -= prediction.job.reports[r].start_skew;
  }
  FORETRACE_ASSIGN_OR_RETURN(const Schedule schedule,
                             Execute(store, prediction.job.program, setup.network()));
  const SimTime together =
      LongestIteration(MeasureRanks(store, prediction.job, prediction.job.program, schedule));
  for (size_t r = 0; r < starts.size(); ++r) ranks[r].start = starts[r];
  const std::string with = fmt::format("{:.1f}", LongestIteration(prediction.ranks).us());
  const std::string without = fmt::format("{:.1f}", together.us());
  notes.push_back(fmt::format(
      "ranks start up to {:.1f} us apart, as recorded; started together, the "
      "longest iteration takes {}",
      skew.us(),
      with == without ? "as long" : fmt::format("{} us instead of {} us", without, with)));
  return absl::OkStatus();
}

absl::StatusOr<ReportOptions> ExplainStep(const TraceStore& store, const SimulationSetup& setup,
                                          const StepRequest& request, Prediction& prediction,
                                          Prediction* unedited) {
  ReportOptions report;
  report.what_if = !setup.what_if().empty() || setup.retargets();
  report.notes = RunNotes(store, prediction, setup);
  FORETRACE_ASSIGN_OR_RETURN(report.doubt, DoubtOfReplay(store, setup, prediction, unedited));
  report.iteration =
      request.iteration >= 0 ? request.iteration : RepresentativeStep(store, prediction, unedited);
  FORETRACE_RETURN_IF_ERROR(AddStep(store, setup, prediction, unedited, report));
  FORETRACE_RETURN_IF_ERROR(AddWaitInterval(store, setup, prediction, unedited, report));
  if (report.what_if || setup.models_durations()) {
    const std::optional<std::string> doubt = DoubtOfClocks(store, prediction.job);
    AddDoubt(doubt, report);
    const std::optional<std::string> note = NoteOfClocks(store, prediction.job);
    if (!doubt.has_value() && note.has_value()) report.notes.push_back(*note);
    AddClockNoise(prediction, report);
  }
  if (report.doubt.has_value() && request.strict) {
    return Infeasible("--strict: {}", *report.doubt);
  }
  if (report.iteration.has_value()) {
    FORETRACE_ASSIGN_OR_RETURN(
        report.absent,
        IntervalOfAbsentRanks(store, setup, prediction, *report.iteration, report.window));
    FORETRACE_ASSIGN_OR_RETURN(
        report.scale_out,
        SummarizeScaleOut(store, setup,
                          {*report.iteration, prediction, unedited, report.step, report.absent}));
  }
  return report;
}

}  // namespace foretrace
