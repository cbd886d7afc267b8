#pragma once
// Column-for-column comparison of trace stores, for round trips through files.

#include <string>

#include "simulator/trace/rank_trace.h"

namespace foretrace {

// Empty when equal, else the first difference. Strings are compared by text; RankInfo::source, the
// name of the file, is not compared.
std::string FirstDifference(const TraceStore& a, const TraceStore& b);

}  // namespace foretrace
