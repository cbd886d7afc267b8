#pragma once
// The lookups of a recorded trace as a table of measurements.

#include <string>

#include "absl/status/statusor.h"
#include "simulator/calibrate/csv_table.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// One row for the kernels of every lookup, forward and backward, and one for its sorting of
// indices. Traces hold sizes and no indices: tables of a call are taken as alike and rows as
// equally likely. `label` names the trace in messages. Errors: a device that is not known, no
// lookups with shapes.
absl::StatusOr<BenchmarkTable> LookupTable(const TraceStore& store, const std::string& label);

}  // namespace foretrace
