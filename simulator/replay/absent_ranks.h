#pragma once
// How much a prediction owes to what stands in for ranks without a trace.

#include <optional>

#include "absl/status/statusor.h"
#include "simulator/engine/replay.h"
#include "simulator/replay/simulation_setup.h"
#include "simulator/report/prediction_report.h"

namespace foretrace {

// The iteration under every assumption on absent ranks (AbsentRanks), that of `prediction` among
// them and the changes of --what-if applied, taken as `window` says. Unset where no rendezvous with
// absent members rests on the recording, or a network in which transfers contend would have to run
// again.
absl::StatusOr<std::optional<AbsentInterval>> IntervalOfAbsentRanks(const TraceStore& store,
                                                                    const SimulationSetup& setup,
                                                                    const Prediction& prediction,
                                                                    int64_t iteration,
                                                                    StepWindow window);

}  // namespace foretrace
