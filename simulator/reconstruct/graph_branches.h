#pragma once
// What waits for what inside CUDA graphs that run on several streams. A recording says which launch
// issued the work, and not which waits the graph was captured with.

#include <span>
#include <vector>

#include "simulator/reconstruct/device_index.h"
#include "simulator/reconstruct/sync_edges.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// Whether a call launched a graph whose work runs on more than one stream.
bool LaunchesBranches(const RankTrace& rank, const DeviceIndex& index, NodeIndex call);

// Waits between streams within graphs, judged over all launches of one graph, that is, launches
// that issue the same work on the same streams: work waits for the last work of another stream that
// had ended in every launch when it began, where in most launches it began right after that end,
// and later than the work before it on its own stream explains. A wait that never held anything up
// cannot be seen. Graphs of more than 64 streams get none.
std::vector<SyncEdge> FindGraphBranches(const RankTrace& rank, const DeviceIndex& index);

}  // namespace foretrace
