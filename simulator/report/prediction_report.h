#pragma once
// Everything that `predict` says about one run, as values; printed by text_report.h, written by
// report_json.h.

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/report/breakdown.h"
#include "simulator/report/communicators.h"
#include "simulator/report/critical_path.h"
#include "simulator/report/device_time.h"
#include "simulator/report/duration_sources.h"
#include "simulator/report/event_table.h"
#include "simulator/report/overlap.h"
#include "simulator/report/rank_summary.h"
#include "simulator/report/top_ops.h"

namespace foretrace {

// The reported step by the definitions of docs/semantics.md, of the slowest rank.
struct StepSummary {
  SimTime period;      // in steady state: from one completion to the next
  SimTime cpu_period;  // of the CPU alone
  uint32_t copies = 0;
  bool settled = false;
  SimTime recorded_period;  // completion to completion; zero: it is the first that was recorded
  SimTime completion;       // from the begin mark until its device work is done
  SimTime recorded_completion;
  SimTime unedited_period;  // without the changes of --what-if; zero: there are none
};

// What a step's time is spent on before and after a change.
struct StepCause {
  std::string what;
  SimTime before;
  SimTime after;

  SimTime difference() const { return after - before; }
};

// What the step owes to one kind of work: see `predict --sensitivity`.
struct SensitivityRow {
  std::string kind;  // op, communicator, cpu, synchronise
  std::string name;
  int64_t count = 0;  // in a step, over all ranks
  SimTime time;       // in a step, of the rank that has most of it
  double cost = 0;    // of the step, per unit of its time: from 1 % more of it
  SimTime gain;       // of the step without it
};

// The reported iteration by what stands in for ranks without a trace, which --absent names.
struct AbsentInterval {
  SimTime never_last;  // absent ranks are never waited for beyond the least that they were
  SimTime alike;       // they come as much later than those that are present as recorded
  // The same, and --what-if makes them as much slower or faster as it makes those.
  SimTime changed_alike;
  // They come as early as the recording allows: all that they were waited for feels the change.
  SimTime earliest;
  // They come as late as the recording allows: all that they were waited for feels the change.
  SimTime latest;
  SimTime as_recorded;     // present ranks wait for them, and for nobody else, as long as recorded
  int64_t absent = 0;      // ranks
  int64_t rendezvous = 0;  // that they are members of, in the whole recording
  int64_t communicators = 0;

  SimTime lower() const {
    return std::min({never_last, alike, changed_alike, earliest, latest, as_recorded});
  }
  SimTime upper() const {
    return std::max({never_last, alike, changed_alike, earliest, latest, as_recorded});
  }
};

// The reported step by what waits are taken to mean that held nothing up when recorded: its period
// where it has one.
struct WaitInterval {
  SimTime as_taken;
  SimTime least;      // they wait for nothing
  SimTime most;       // for the latest that the recording allows
  int64_t waits = 0;  // in the whole recording
  // Waits that held something up and can mean more than one thing, all of which the interval has.
  int64_t ambiguous = 0;
  // Sends of which nothing shows whether they wait for their receivers: `least` is also without.
  int64_t sends = 0;
  // Launches of kinds of which the recording shows none that found its stream idle.
  int64_t launches = 0;
};

// The step on more ranks than recorded, by when the last of them comes: never after the last of
// those at hand, as expected, and in one of twenty cases later still.
struct ScaleOutSummary {
  struct Group {
    std::string communicator;
    int32_t from = 0, to = 0;  // members
    int64_t rendezvous = 0;    // in the whole recording, as the times
    SimTime transfers_before, transfers_after;
    SimTime later;          // the last member
    bool supposed = false;  // nothing shows how far apart its ranks come
  };
  int32_t ranks = 0;
  int32_t recorded = 0;
  int32_t at_hand = 0;
  // Between all that is doubted: the last arrival, what stands in for ranks without a trace, and
  // the share by which the replay misses the step that was recorded.
  SimTime lower, expected, upper;
  SimTime last_at_hand, last_late;     // by the last arrival alone
  SimTime absent_lower, absent_upper;  // by ranks without a trace; zero: all have one
  double replay_error = 0;
  // By which the upper end supposes a rank to be slower between collectives of groups that show no
  // spread; 0: all show it.
  double supposed_slowdown = 0;
  std::vector<Group> groups;
  // Work of sharded optimizers in the whole recording; zero: none.
  SimTime optimizer_before, optimizer_after;
};

// One iteration over all ranks.
struct IterationSummary {
  int64_t number = 0;
  SimTime predicted;      // of the slowest rank
  SimTime recorded;       // of the slowest rank; zero without recorded times
  RankIndex slowest = 0;  // in the prediction
  SimTime unedited;       // of the slowest rank without the changes of --what-if; zero: none
};

// From when to when a step is taken.
enum class StepWindow : uint8_t {
  kMarks,        // between its marks on the CPU
  kUntilDone,    // from its begin mark until its device work is done: none before it to begin at
  kCompletions,  // from the completion of the step before to its own
};

// Of another window than its marks: "from one completion to the next".
std::string_view Words(StepWindow window);

struct PredictionReport {
  // The reported iteration, which everything but `iterations` is about.
  int64_t iteration = 0;
  // Of the slowest rank: the largest ranks[].marks.predicted().
  SimTime iteration_time;
  SimTime recorded_time;  // zero without recorded times
  // Of which device work, communication and the critical path are: not of the marks where its CPU
  // runs ahead (between them is other steps' work), or works outside of them.
  StepWindow window = StepWindow::kMarks;
  bool by_completion() const { return window != StepWindow::kMarks; }
  SimTime baseline;                   // see Baseline()
  std::optional<StepSummary> step;    // unset where no steady state is known
  std::vector<StepCause> causes;      // with --what-if: of the difference, largest first
  bool causes_by_completion = false;  // from the completion of the step before, in both predictions
  std::vector<SensitivityRow> sensitivity;   // with --sensitivity: the largest gain first
  std::optional<AbsentInterval> absent;      // where ranks have no trace and it matters
  std::optional<WaitInterval> unshown;       // with changes, where the recording names no events
  std::optional<ScaleOutSummary> scale_out;  // with --ranks
  bool what_if = false;
  std::vector<IterationSummary> iterations;  // that all ranks have, in order
  std::vector<RankSummary> ranks;            // by RankIndex, as `overlap`
  std::vector<OverlapSummary> overlap;
  std::vector<DeviceTime> device_time;
  std::vector<StreamBreakdown> streams;
  std::vector<CommunicatorSummary> communicators;
  CriticalPath critical_path;
  TopOps top;
  DurationSources durations;
  // What speaks against the prediction: the replay cannot reproduce its own recording.
  std::optional<std::string> doubt;
  // Some rank's trace was made by a generator.
  bool synthetic = false;
  // What limits the meaning of the figures ("ranks 4-7 are missing: ..."); printed with them.
  std::vector<std::string> notes;

  // Share of critical-path time by EstimateSource; sums to 1 unless the path is empty.
  std::array<double, static_cast<size_t>(EstimateSource::kCount)> SourceShares() const;
};

struct ReportOptions {
  // Unset: the iteration of median predicted time (the shorter of two), which neither a slow first
  // step nor a single outlier moves, among those in which a device starts any work: profiles tend
  // to end with the mark of a step that was hardly begun.
  std::optional<int64_t> iteration;
  size_t top = 15;                       // entries of `top`
  CommunicatorNames communicator_names;  // for communicators without a declared name
  std::vector<std::string> notes;
  std::optional<std::string> doubt;
  std::optional<StepSummary> step;
  StepWindow window = StepWindow::kMarks;
  std::vector<IterationWindow> completions;  // by rank, of `window`; empty: the marks
  std::vector<StepCause> causes;
  bool causes_by_completion = false;
  std::vector<SensitivityRow> sensitivity;
  std::optional<AbsentInterval> absent;
  std::optional<WaitInterval> unshown;
  std::optional<ScaleOutSummary> scale_out;
  // With --what-if: unedited predictions by number of the iteration.
  bool what_if = false;
  std::map<int64_t, SimTime> unedited;
};

// `windows[rank]` holds that rank's iterations; numbers that some rank lacks are left out.
// Errors: no iteration that all ranks have; options.iteration is not one of them.
absl::StatusOr<PredictionReport> BuildPredictionReport(
    const EventTable& table, std::span<const std::vector<IterationWindow>> windows,
    const ReportOptions& options);

}  // namespace foretrace
