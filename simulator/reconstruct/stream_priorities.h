#pragma once
// Streams whose kernels go before those of others, which recordings do not state.

#include <vector>

#include "simulator/reconstruct/sync_edges.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// By lane: whether the stream has priority (cudaStreamCreateWithPriority; FSDP2 makes such for its
// communication). Blocks of its kernels are placed before those that other streams still have to
// place, and only kernels' are ("In the current implementation, only compute kernels launched in
// priority streams are affected by the stream's priority"). Told by the kernels of over one wave
// that could have begun, as far as launches, streams and `device_edges` say, while another stream
// had over a wave of blocks left to place: most of at least five began before it had placed them.
// Smaller kernels tell nothing: they may fit beside.
std::vector<bool> FindPriorityStreams(const RankTrace& rank,
                                      const std::vector<SyncEdge>& device_edges);

}  // namespace foretrace
