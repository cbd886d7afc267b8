#pragma once

#include <optional>
#include <string>
#include <vector>

#include "simulator/engine/compile.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// What users must know of how ranks were matched: absent members, communication without a partner,
// clocks that were corrected, and doubts.
std::vector<std::string> CommunicationNotes(const TraceStore& store, const CompiledJob& job);

// Why changes may have other effects on other ranks than predicted, in plain words: clocks of which
// the recording shows no more than that they are apart.
std::optional<std::string> DoubtOfClocks(const TraceStore& store, const CompiledJob& job);
// What is assumed of clocks of which nothing shows whether they are apart.
std::optional<std::string> NoteOfClocks(const TraceStore& store, const CompiledJob& job);

// Clocks that seem apart by no more than one clock can be wrong by, which is not corrected. Unset
// where that is less than `least`.
std::optional<std::string> NoteOfClockNoise(const CompiledJob& job, SimTime least);

}  // namespace foretrace
