#pragma once
// What the rules of calls know of a CPU timeline while they go along it.

#include <vector>

#include "simulator/trace/rank_trace.h"

namespace foretrace {

// A stream wait that fits nothing is kept for this many launches before it is given up.
inline constexpr int kWaitPatience = 8;

struct PendingWait {
  NodeIndex call;
  uint32_t unnamed = 0;             // in the list of unnamed waits
  LaneIndex stream;                 // that waits; invalid when the recording does not say
  bool explicit_comm_wait = false;  // lies in a communication op that issues nothing
  bool launch_since_collective = false;
  LaneIndex stream_before;
  std::vector<LaneIndex> tried;  // streams whose next work shows that the wait was not theirs
  bool only_forks = false;       // one of them had waited for that already
  int launches_left = kWaitPatience;
};

struct TimelineState {
  LaneIndex current_stream;            // of the last non-communication work
  LaneIndex previous_stream;           // the one before, where it differs
  LaneIndex last_used_stream;          // of any work
  std::vector<NodeIndex> outstanding;  // collectives nobody waited for yet, in order of issue
  bool launch_since_collective = false;
  std::vector<PendingWait> waits;
};

}  // namespace foretrace
