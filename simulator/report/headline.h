#pragma once
// What a report for people says first: the answer, why, what it rests on, and what limits it.

#include <string>

#include "simulator/report/prediction_report.h"
#include "simulator/report/text_table.h"
#include "simulator/report/time_unit.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// Lines of at most style.width characters; ends in '\n'.
std::string Headline(const PredictionReport& report, const TraceStore& store,
                     const TextStyle& style, const TimeUnit& unit);

// Steps of serving engines with their phase.
std::string IterationLabel(const TraceStore& store, int64_t number);

// "+1.23 %"
std::string PercentChange(SimTime to, SimTime from);

}  // namespace foretrace
