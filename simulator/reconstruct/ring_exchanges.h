#pragma once
// Rings whose partners no file names; a detail of kernel_ends.h.

#include <optional>
#include <vector>

#include "simulator/reconstruct/comm_sequence.h"
#include "simulator/reconstruct/point_to_point.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// How evenly rendezvous explain when their kernels end: what a kernel takes after all have come
// that it waits for is much the same each time. Mean distance, in picoseconds, from the median of
// the kernel's rank.
double SpreadOfOwnParts(const TraceStore& store, const std::vector<SimTime>& clock_offset,
                        const std::vector<PointToPointRendezvous>& rendezvous);

struct Rings {
  std::vector<PointToPointRendezvous> rendezvous;
  double spread = 0;  // SpreadOfOwnParts
};

// The k-th kernels of all ranks on a line of the mesh of ranks, each of which hands on to the next
// of the line and takes from the one before: the axis that explains their ends most evenly. Unset
// where the recorded kernels cannot be rings, for some began after their partner had left, or not
// all ranks of a line have as many.
std::optional<Rings> MatchRings(const TraceStore& store, const std::vector<CommSequence>& open,
                                const std::vector<SimTime>& clock_offset);

}  // namespace foretrace
