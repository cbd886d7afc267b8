#pragma once
// The copies between host and device of a recorded trace as a table of measurements.

#include <string>

#include "absl/status/statusor.h"
#include "simulator/calibrate/csv_table.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// One row a copy, whatever ran beside it: other ranks' copies over shared links and switches are
// part of what a host gives. `label` names the trace in messages. Errors: a device that is not
// known, no copies.
absl::StatusOr<BenchmarkTable> CopyTable(const TraceStore& store, const std::string& label);

}  // namespace foretrace
