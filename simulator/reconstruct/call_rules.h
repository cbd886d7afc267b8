#pragma once
// What the calls of a rank, one by one in order of issue, say of what waits for what: events that
// the recording names, and readings of waits that it does not name from what was issued around
// them.

#include <vector>

#include "simulator/reconstruct/device_index.h"
#include "simulator/reconstruct/earlier_events.h"
#include "simulator/reconstruct/issue_order.h"
#include "simulator/reconstruct/sync_rules.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

struct CallRules {
  RankSync sync;                              // its edges, counts of rules and unresolved waits
  std::vector<UnnamedWait> unnamed;           // in order of time
  std::vector<ChosenEdge> chosen;             // of those that are not decided
  std::vector<UnnamedWait> before_recording;  // that name an event of before it; in order of time
};

// `earlier`: waits that are decided already; their edges are among the result's.
CallRules ApplyCallRules(const RankTrace& rank, const DeviceIndex& index, const IssueOrder& order,
                         const EarlierEvents& earlier);

}  // namespace foretrace
