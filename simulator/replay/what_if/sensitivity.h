#pragma once
// What a step owes to each kind of work: the step in steady state, with a little more of it and
// without it.

#include <vector>

#include "absl/status/statusor.h"
#include "simulator/engine/compile.h"
#include "simulator/engine/repeat.h"
#include "simulator/report/prediction_report.h"

namespace foretrace {

// `job` compiled with keep_overheads; of each kind the `limit` with most time. The largest gain
// first. Errors as FindSteadyState.
absl::StatusOr<std::vector<SensitivityRow>> ComputeSensitivity(const TraceStore& store,
                                                               const CompiledJob& job, int64_t step,
                                                               NetworkModel* network, size_t limit);

}  // namespace foretrace
