#pragma once
// Dependencies between device work that the files declare, whatever the recorded times say.

#include <vector>

#include "simulator/reconstruct/device_index.h"
#include "simulator/reconstruct/sync_edges.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// By tensor ids of the execution trace: the first device work of an op follows the last of each op
// that produces an input of it, through ops that issue none (views). Between streams only.
// Assumes that tensors are complete when their producer's last device work is.
std::vector<SyncEdge> DataDependencies(const RankTrace& rank, const DeviceIndex& index);

// Dependencies between device nodes on different streams.
std::vector<SyncEdge> DeclaredDependencies(const RankTrace& rank);

}  // namespace foretrace
