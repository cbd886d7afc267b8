#pragma once
// What a recording shows of clocks, and what it does not. Where ends of what ranks do together do
// not tell, the order of transfers does in part: nothing is received before it was sent.

#include <vector>

#include "simulator/base/time.h"
#include "simulator/reconstruct/communicators.h"

namespace foretrace {

struct ClockEstimate {
  std::vector<SimTime> offsets;  // as of EstimateClockOffsets
  // Ranks that do something with others of which nothing shows by how much their clocks differ.
  std::vector<bool> unknown;
  // What clocks seem to be apart by and are not corrected for, since one clock can be wrong by as
  // much.
  std::vector<SimTime> within_noise;
};
ClockEstimate EstimateClocks(const TraceStore& store, const CommunicatorMap& map);

// Raises `offsets` (by index of rank, to be added to its recorded times) by as little as makes the
// recorded order possible, and returns for each rank whether it did. Ranks that do something
// together which all leave at once stay together. Nothing is raised for fewer than three such
// transfers between two clocks, where no offsets make all of them possible, or none below a
// millisecond: then something else is wrong.
std::vector<bool> KeepOrderOfTransfers(const TraceStore& store, const CommunicatorMap& map,
                                       std::vector<SimTime>& offsets);

}  // namespace foretrace
