#pragma once
// The reported step by each definition, and where the difference between two steps comes from.

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/engine/replay.h"
#include "simulator/engine/step_times.h"
#include "simulator/report/prediction_report.h"

namespace foretrace {

// Unset, with a note that says why, where the job has no steady state that could be known.
absl::StatusOr<std::optional<StepSummary>> SummarizeStep(const TraceStore& store,
                                                         const Prediction& prediction, int64_t step,
                                                         NetworkModel* network,
                                                         std::vector<std::string>& notes);

// The reported step as its device has it, by rank.
struct DeviceWindows {
  StepWindow window = StepWindow::kMarks;
  std::vector<IterationWindow> ranks;  // of kMarks: empty
};

// Of kMarks where neither its completion nor its time in steady state is much longer than between
// its marks: the CPU is not ahead of its device, and goes from step to step. Else from the
// completion of the step before where every rank has one that comes first, or from the begin mark.
DeviceWindows WindowsOfDevice(const TraceStore& store, const Prediction& prediction, int64_t step,
                              const std::optional<StepSummary>& summary);

// Why what is reported of a step, `marked` long between its marks, is of such windows.
std::string NoteOfWindows(int64_t step, const StepSummary& summary, SimTime marked,
                          StepWindow window);

// What a reader must know of a step that its CPU marks say little of.
void NoteBlockedShare(const Prediction& prediction, int64_t step, std::vector<std::string>& notes);

// The slowest rank's predicted time of each iteration.
std::map<int64_t, SimTime> IterationTimes(const Prediction& prediction);

// A run kept for comparison: of a step from the completion of the one before to its own, or, for a
// first step, from its begin mark; of traces without marks the whole.
class ExplainedRun {
 public:
  // `by_completion` unset: from the begin mark. Errors: no such step.
  static absl::StatusOr<ExplainedRun> Make(const TraceStore& store, Prediction& prediction,
                                           int64_t step, bool by_completion);
  // Every rank has a step before it, which is complete before it.
  static bool HasPeriod(const TraceStore& store, const Prediction& prediction, int64_t step);

  SimTime total() const { return path_.total; }
  friend std::vector<StepCause> Differences(const ExplainedRun& before, const ExplainedRun& after);

 private:
  explicit ExplainedRun(const TraceStore& store)
      : table_(std::make_unique<EventTable>(store)),
        classifier_(std::make_unique<Classifier>(store)) {}

  std::unique_ptr<EventTable> table_;
  std::unique_ptr<Classifier> classifier_;
  CriticalPath path_;
  std::vector<std::string> communicators_;  // by rendezvous
};

std::vector<StepCause> Differences(const ExplainedRun& before, const ExplainedRun& after);

}  // namespace foretrace
