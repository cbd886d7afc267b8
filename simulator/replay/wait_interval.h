#pragma once
// How much a prediction owes to what waits are taken to mean that held nothing up when recorded.

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "simulator/engine/replay.h"
#include "simulator/replay/trace_options.h"
#include "simulator/report/prediction_report.h"

namespace foretrace {

// The step, as `step` of `prediction` has it, where such waits wait for nothing, and where they
// wait for the latest that the recording allows, with the changes of --what-if applied. Unset where
// the recording is replayed unchanged, which does not depend on them; where it shows what all waits
// wait for; and on a network in which transfers contend, which would have to run again.
absl::StatusOr<std::optional<WaitInterval>> IntervalOfWaits(const TraceStore& store,
                                                            const SimulationSetup& setup,
                                                            const Prediction& prediction,
                                                            int64_t iteration,
                                                            const std::optional<StepSummary>& step);

// In plain words, where the interval is wider than 1 % of the step.
std::optional<std::string> DoubtOfWaits(const TraceStore& store, const Prediction& prediction,
                                        const WaitInterval& interval);

}  // namespace foretrace
