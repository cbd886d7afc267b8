#pragma once
// Sends and receives whose partners no file names, matched by when their kernels end; a detail of
// point_to_point.h.

#include <vector>

#include "simulator/reconstruct/comm_sequence.h"
#include "simulator/reconstruct/point_to_point.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// Both ends of a transfer leave together. First whole sequences that do so throughout; of what is
// left, as of a stage between two others that share one stream, single kernels whose ends lie
// within 50 us, in the order that the others of these two streams have. The rest meets an unknown
// partner. Where the user's file says which ranks exchange, only those do; else neighbours along an
// axis of the mesh of ranks, if one explains as much.
std::vector<PointToPointRendezvous> MatchByEnds(const TraceStore& store,
                                                const std::vector<CommSequence>& open,
                                                const CollectivesKnown& known);

}  // namespace foretrace
