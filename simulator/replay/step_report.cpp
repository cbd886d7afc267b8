#include "simulator/replay/step_report.h"

#include <algorithm>
#include <array>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/engine/repeat.h"
#include "simulator/replay/run.h"
#include "simulator/replay/step_errors.h"
#include "simulator/report/path_difference.h"

namespace foretrace {
namespace {

// Below this share of its step in which the CPU is held, the step is the sum of recorded overheads.
constexpr double kHardlyBlocked = 0.01;
// By how much longer than between its marks a step takes, or is at work, that these do not bound.
constexpr double kAhead = 1.05;

const MeasuredStep* Find(const std::vector<MeasuredStep>& steps, int64_t number) {
  const auto it = std::find_if(steps.begin(), steps.end(),
                               [&](const MeasuredStep& step) { return step.number == number; });
  return it == steps.end() ? nullptr : &*it;
}

// The step before is complete before this one, which it need not be: its work may be on a stream
// that nothing waits for.
bool Follows(const MeasuredStep& step) {
  return std::ranges::all_of(std::array{&step.predicted, &step.recorded}, [](const auto* times) {
    return times->period.value_or(SimTime()) > SimTime();
  });
}

bool EachFollows(const std::vector<std::vector<MeasuredStep>>& ranks, int64_t step) {
  return std::ranges::all_of(ranks, [&](const std::vector<MeasuredStep>& steps) {
    const MeasuredStep* measured = Find(steps, step);
    return measured != nullptr && Follows(*measured);
  });
}

// Of a step between those marks, until its device work is done: `after` the completion of the step
// before, where that comes first.
IterationWindow UntilDone(IterationWindow marks, const MeasuredStep& step, bool after) {
  after = after && Follows(step);
  const auto until = [after](const StepTimes& times, SimTime& start, SimTime& end) {
    end = times.done;
    if (after) start = times.done - *times.period;
  };
  until(step.predicted, marks.predicted_start, marks.predicted_end);
  until(step.recorded, marks.recorded_start, marks.recorded_end);
  return marks;
}

}  // namespace

absl::StatusOr<std::optional<StepSummary>> SummarizeStep(const TraceStore& store,
                                                         const Prediction& prediction, int64_t step,
                                                         NetworkModel* network,
                                                         std::vector<std::string>& notes) {
  const CompiledJob& job = prediction.job;
  if (job.symbolic || !prediction.marked_iterations || job.semantics != Semantics::kFull) {
    return std::nullopt;
  }
  const absl::StatusOr<SteadyState> steady = FindSteadyState(store, job.program, step, network);
  if (absl::IsNotFound(steady.status())) {
    notes.push_back(fmt::format("iteration {} cannot be repeated to a steady state: {}", step,
                                std::string(steady.status().message())));
    return std::nullopt;
  }
  FORETRACE_RETURN_IF_ERROR(steady.status());
  StepSummary summary;
  summary.period = steady->period;
  summary.cpu_period = steady->cpu_period;
  summary.copies = steady->copies;
  summary.settled = steady->settled;
  for (const std::vector<MeasuredStep>& steps : MeasureSteps(store, prediction)) {
    const MeasuredStep* measured = Find(steps, step);
    if (measured == nullptr) continue;
    const StepTimes& recorded = measured->recorded;
    summary.completion = std::max(summary.completion, measured->predicted.completion);
    summary.recorded_completion = std::max(summary.recorded_completion, recorded.completion);
    summary.recorded_period =
        std::max(summary.recorded_period, recorded.period.value_or(SimTime()));
  }
  return summary;
}

DeviceWindows WindowsOfDevice(const TraceStore& store, const Prediction& prediction, int64_t step,
                              const std::optional<StepSummary>& summary) {
  if (!summary.has_value()) return {};
  const auto measured = MeasureSteps(store, prediction);
  const auto all = Windows(prediction);
  const bool after = EachFollows(measured, step);
  SimTime marked;
  DeviceWindows windows{after ? StepWindow::kCompletions : StepWindow::kUntilDone, {}};
  for (size_t r = 0; r < all.size(); ++r) {
    const auto marks = std::ranges::find(all[r], step, &IterationWindow::number);
    const MeasuredStep* own = Find(measured[r], step);
    if (marks == all[r].end() || own == nullptr) return {};
    marked = std::max(marked, marks->predicted());
    windows.ranks.push_back(UntilDone(*marks, *own, after));
  }
  if (std::max(summary->period, summary->completion) <= marked.ScaledBy(kAhead)) return {};
  return windows;
}

std::string NoteOfWindows(int64_t step, const StepSummary& summary, SimTime marked,
                          StepWindow window) {
  const bool ahead = summary.completion > marked.ScaledBy(kAhead);
  return fmt::format(
      "{}, so that all that follows but the table of iterations, the share in which the CPU is "
      "blocked and the CPU times of --by is of the time until its own work is done, from {}",
      ahead ? fmt::format("the CPU is ahead of its device, which goes on with iteration {} after "
                          "its end mark, and between its marks with steps before it",
                          step)
            : fmt::format("a step takes longer than between the marks of iteration {}, by what the "
                          "CPU does from one step's end mark to the next one's begin mark",
                          step),
      window == StepWindow::kCompletions
          ? "the completion of the step before"
          : "its begin mark, since no completion of a step before it comes first");
}

void NoteBlockedShare(const Prediction& prediction, int64_t step, std::vector<std::string>& notes) {
  double most = 0;
  for (size_t r = 0; r < prediction.ranks.size(); ++r) {
    for (const PredictedIteration& it : prediction.ranks[r].iterations) {
      if (it.number != step || it.predicted_end <= it.predicted_start) continue;
      const SimTime blocked =
          BlockedWithin(prediction.job.program.ranks[r], prediction.schedule.ranks[r],
                        it.predicted_start, it.predicted_end);
      most = std::max(most, blocked.us() / (it.predicted_end - it.predicted_start).us());
    }
  }
  if (most >= kHardlyBlocked || prediction.job.symbolic || !prediction.marked_iterations) return;
  notes.push_back(fmt::format(
      "the CPU is hardly ever held by the device (at most {:.1f} % of iteration {}), so that the "
      "time between its marks is a sum of recorded CPU overheads and its error says little; the "
      "steady state and kernel starts say more",
      100 * most, step));
}

std::map<int64_t, SimTime> IterationTimes(const Prediction& prediction) {
  std::map<int64_t, SimTime> times;
  for (const PredictedRank& rank : prediction.ranks) {
    for (const PredictedIteration& it : rank.iterations) {
      SimTime& time = times[it.number];
      time = std::max(time, it.predicted_end - it.predicted_start);
    }
  }
  return times;
}

bool ExplainedRun::HasPeriod(const TraceStore& store, const Prediction& prediction, int64_t step) {
  return EachFollows(MeasureSteps(store, prediction), step);
}

absl::StatusOr<ExplainedRun> ExplainedRun::Make(const TraceStore& store, Prediction& prediction,
                                                int64_t step, bool by_completion) {
  ExplainedRun run(store);
  const auto measured = MeasureSteps(store, prediction);
  std::vector<IterationWindow> windows;
  const auto all = Windows(prediction);
  for (size_t r = 0; r < all.size(); ++r) {
    const auto it = std::find_if(all[r].begin(), all[r].end(),
                                 [&](const IterationWindow& w) { return w.number == step; });
    if (it == all[r].end()) {
      return InvalidInput("{}: rank {} has no iteration {}", store.ranks()[r].info().source,
                          store.ranks()[r].info().rank, step);
    }
    windows.push_back(*it);
    const MeasuredStep* own = Find(measured[r], step);
    if (own != nullptr) windows.back() = UntilDone(windows.back(), *own, by_completion);
  }
  EngineObserver* observers[] = {run.table_.get()};
  Tell(store, prediction, observers, ProgramUse::kKeep);
  run.path_ = ComputeCriticalPath(*run.table_, *run.classifier_, windows);
  const CommunicatorMap& map = prediction.job.communicators;
  for (const MatchedRendezvous& rendezvous : map.rendezvous) {
    run.communicators_.push_back(map.communicators[rendezvous.communicator].name);
  }
  return run;
}

std::vector<StepCause> Differences(const ExplainedRun& before, const ExplainedRun& after) {
  const auto names = [](const ExplainedRun& run) -> CommunicatorNames {
    return [&run](uint32_t rendezvous) -> std::string_view {
      if (rendezvous >= run.communicators_.size()) return "";
      return run.communicators_[rendezvous];
    };
  };
  const CommunicatorNames of_before = names(before), of_after = names(after);
  return ComparePaths(
      {before.table_->store(), *before.classifier_, before.path_, *before.table_, of_before},
      {after.table_->store(), *after.classifier_, after.path_, *after.table_, of_after});
}

}  // namespace foretrace
