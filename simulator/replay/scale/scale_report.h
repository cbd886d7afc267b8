#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "simulator/replay/run.h"

namespace foretrace {

// What was found of the reported step before it is asked between which times it lies.
struct ScaledStep {
  int64_t iteration = 0;
  const Prediction& prediction;
  const Prediction* unedited;              // of the job as recorded; may be null
  const std::optional<StepSummary>& step;  // as AddStep found it
  const std::optional<AbsentInterval>& absent;
};

// With --ranks: what grew, and between which times the step lies. Unset without it.
absl::StatusOr<std::optional<ScaleOutSummary>> SummarizeScaleOut(const TraceStore& store,
                                                                 const SimulationSetup& setup,
                                                                 const ScaledStep& scaled);

}  // namespace foretrace
