#pragma once
// A copy of a trace store with other recorded times, for tests of what a prediction depends on.

#include <functional>

#include "absl/status/statusor.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

struct RecordedTime {
  SimTime start;
  SimTime duration;  // RankTrace::kNoDuration where none is recorded
};

// Called for each node of each rank (index into TraceStore::ranks()); edits the times in place.
using TimeEdit = std::function<void(uint32_t rank, NodeIndex node, RecordedTime& time)>;

// Everything else is kept; nodes are ordered anew by the edited start times.
absl::StatusOr<TraceStore> CopyStore(const TraceStore& store, const TimeEdit& edit);

}  // namespace foretrace
