#pragma once
// What `foretrace calibrate` says of a fit.

#include <string>

#include "simulator/calibrate/calibrate.h"
#include "simulator/report/text_table.h"

namespace foretrace {

std::string CalibrationText(const CalibrateReport& report, const TextStyle& style);
// With `rows`, as pages and tables have it, also every row.
std::string CalibrationJson(const CalibrateReport& report, bool rows);
// As CSV, for scripts/plot_fit.py.
std::string CalibrationRows(const CalibrateReport& report);

}  // namespace foretrace
