#pragma once
// The reported step in a report's document, and between which times it lies.

#include "simulator/base/json_writer.h"
#include "simulator/report/prediction_report.h"

namespace foretrace {

// step, sensitivity, difference, absent_ranks, unshown_waits and scale_out of report_json.h.
void WriteStepMembers(const PredictionReport& report, const TraceStore& store, JsonWriter& json);

}  // namespace foretrace
