#pragma once
// The report for people.

#include <string>

#include "simulator/report/prediction_report.h"
#include "simulator/report/text_table.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

struct TextReportOptions {
  TextStyle style;
  // Ranks and streams shown; of more, the slowest ranks, and a line that says how many are not.
  size_t max_ranks = 16;
  size_t max_path_runs = 12;
  size_t max_communicators = 12;
  size_t max_top = 10;
};

// Several tables with a heading each; ends in '\n'.
std::string TextReport(const PredictionReport& report, const TraceStore& store,
                       const TextReportOptions& options);

}  // namespace foretrace
