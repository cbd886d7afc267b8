#pragma once

#include <string>

#include "simulator/report/prediction_report.h"

namespace foretrace {

// Lines that say between which times the iteration lies, and what that rests on.
std::string AbsentText(const AbsentInterval& interval, bool what_if);

}  // namespace foretrace
