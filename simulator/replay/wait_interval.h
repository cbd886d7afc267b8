#pragma once
// How much a prediction owes to what waits are taken to mean of which the recording does not show
// it (reconstruct/unshown_waits.h).

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "simulator/engine/replay.h"
#include "simulator/replay/simulation_setup.h"
#include "simulator/report/prediction_report.h"

namespace foretrace {

struct WaitIntervals {
  WaitInterval step;  // as `step` of the prediction has it
  // The iteration between its marks, on the rank on which it is the widest: where its CPU runs
  // ahead of its device, a step in steady state may owe nothing to waits that one iteration hangs
  // on.
  WaitInterval marked;
  int64_t iteration = 0;  // that `marked` is of
  size_t marked_rank = 0;
  int64_t copies = 0;  // whose calls may hold the CPU until they are done, if that changes anything
};

// Where such waits wait for nothing, where they wait for the latest that the recording allows, by
// every other reading, and where launches of kinds whose latency the recording does not show take
// none or twice what is assumed, with the changes of --what-if applied. Unset where the recording
// is replayed unchanged, which does not depend on them; where it shows all of that; and on a
// network in which transfers contend, which would have to run again. `unedited` (may be null):
// without --what-if.
absl::StatusOr<std::optional<WaitIntervals>> IntervalsOfWaits(
    const TraceStore& store, const SimulationSetup& setup, const Prediction& prediction,
    int64_t iteration, const std::optional<StepSummary>& step, const Prediction* unedited);

// In plain words, where an interval is wider than 1 % of what it is of.
std::optional<std::string> DoubtOfWaits(const TraceStore& store, const Prediction& prediction,
                                        const WaitIntervals& intervals);
// The same, where it is wider than 0.1 %.
std::optional<std::string> NoteOfWaits(const TraceStore& store, const Prediction& prediction,
                                       const WaitIntervals& intervals);

}  // namespace foretrace
