#pragma once
// In which order a rank's CPU issues device work, over all its threads.
//
// The main and the autograd thread of PyTorch never run at the same time (one lock, hand-offs), so
// their calls, merged in order of time, are one serial timeline with exact hand-offs. Threads that
// really overlap with it get a timeline of their own. Threads that issue no device work (watchdogs,
// pin-memory threads) are left out.

#include <cstdint>
#include <vector>

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

IssueOrder FindIssueOrder(const RankTrace& rank);

// True for calls that issue device work.
bool IsLaunch(RuntimeCall call);
// True for calls that always hold the thread until some device work is done.
bool IsSynchronize(RuntimeCall call);

// How a runtime call holds its thread, given the device node that it issued (invalid: none).
// CUDA programming guide, "API synchronization behavior": pageable copies are staged; those from
// device to host return after the copy, those from host to device of more than 64 KB likewise.
bool BlocksUntilCopied(const RankTrace& rank, NodeIndex call, NodeIndex copy);

}  // namespace foretrace
