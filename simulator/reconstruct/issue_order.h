#pragma once
// In which order a rank's CPU issues device work, over all its threads.
//
// The main and the autograd thread of PyTorch never run at the same time (one lock, hand-offs), so
// their calls, merged in order of time, are one serial timeline with exact hand-offs. Threads that
// really overlap with it, or launch while a call of it blocks, get a timeline of their own. Threads
// that issue no device work are left out where they merely allocate (pin-memory threads) or where
// others launch while they wait (monitors, watchdogs).

#include <cstdint>
#include <vector>

#include "simulator/reconstruct/device_index.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

struct CpuTimeline {
  // Calls that issue device work or can block on it, in order of start.
  std::vector<NodeIndex> calls;
  std::vector<LaneIndex> threads;
};

struct IssueOrder {
  // The one with the most calls first. Empty for traces without runtime calls.
  std::vector<CpuTimeline> timelines;
};

IssueOrder FindIssueOrder(const RankTrace& rank, const DeviceIndex& index);

// True for calls that issue device work.
bool IsLaunch(RuntimeCall call);
// True for calls that always hold the thread until some device work is done.
bool IsSynchronize(RuntimeCall call);

}  // namespace foretrace
