#pragma once

#include <string>
#include <vector>

#include "simulator/engine/compile.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// What users must know of how ranks were matched: absent members, communication without a partner,
// clocks that were corrected, and doubts.
std::vector<std::string> CommunicationNotes(const TraceStore& store, const CompiledJob& job);

}  // namespace foretrace
