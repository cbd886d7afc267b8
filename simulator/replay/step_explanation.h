#pragma once
// What is said of the reported step besides its tables: doubts and intervals, its difference from
// the unedited prediction, notes.

#include "absl/status/statusor.h"
#include "simulator/engine/replay.h"
#include "simulator/replay/simulation_setup.h"
#include "simulator/report/prediction_report.h"

namespace foretrace {

struct StepRequest {
  int64_t iteration = -1;  // below 0: the representative one
  bool strict = false;     // a doubt is an error
};

// `unedited` (may be null) is the prediction without --what-if.
absl::StatusOr<ReportOptions> ExplainStep(const TraceStore& store, const SimulationSetup& setup,
                                          const StepRequest& request, Prediction& prediction,
                                          Prediction* unedited);

// The recorded skew between ranks is an initial condition, so its effect is said.
absl::Status NoteAlignedStart(const TraceStore& store, const SimulationSetup& setup,
                              Prediction& prediction, std::vector<std::string>& notes);

SimTime LongestIteration(const std::vector<PredictedRank>& ranks);

}  // namespace foretrace
