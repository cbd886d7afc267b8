#pragma once
// Waits that held nothing up when recorded. Where the recording does not name their events, nothing
// shows what they wait for: any work that had ended by then fits. An unchanged replay does not
// care; with other durations they may hold something up, so that a what-if has an answer under each
// reading.

#include <vector>

#include "simulator/reconstruct/device_index.h"
#include "simulator/reconstruct/earlier_events.h"
#include "simulator/reconstruct/issue_order.h"
#include "simulator/reconstruct/sync_edges.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// What waits that held something up can mean besides, one place of the program or several.
struct OtherEdges {
  std::vector<SyncEdge> instead_of;  // what the rules took them to mean; sorted
  std::vector<SyncEdge> taken;       // sorted
};

struct UnshownWaits {
  std::vector<NodeIndex> calls;  // ascending
  // What the rules took them to mean, which is among the rank's edges; sorted.
  std::vector<SyncEdge> chosen;
  // The latest that they can mean: of every stream the last work that had been issued, less as many
  // as any wait from the same place of the program proves not to be meant; sorted.
  std::vector<SyncEdge> latest;
  // Of waits that held something up. The n-th is the n-th other reading of each place that has so
  // many.
  std::vector<OtherEdges> others;
  std::vector<NodeIndex> ambiguous;  // the waits that have one; ascending
};

// `waits`: all unnamed ones, in order of time; `chosen`: what the rules took them to mean;
// `device_edges` and `block_edges`: all of the rank's.
UnshownWaits FindUnshownWaits(const RankTrace& rank, const DeviceIndex& index,
                              const IssueOrder& order, const std::vector<UnnamedWait>& waits,
                              const std::vector<ChosenEdge>& chosen,
                              const std::vector<SyncEdge>& device_edges,
                              const std::vector<SyncEdge>& block_edges);

}  // namespace foretrace
