#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "simulator/replay/run.h"

namespace foretrace {

// With --ranks: what grew, and between which times the step lies by when the last rank comes. Unset
// without it. `step` as AddStep found it, of the prediction as it is.
absl::StatusOr<std::optional<ScaleOutSummary>> SummarizeScaleOut(
    const TraceStore& store, const SimulationSetup& setup, const Prediction& prediction,
    int64_t iteration, const std::optional<StepSummary>& step);

}  // namespace foretrace
