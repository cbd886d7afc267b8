#pragma once
// Changing the order of a rank's items, for edits: what they share.

#include <cstdint>
#include <vector>

#include "simulator/engine/program.h"

namespace foretrace {

// The waits of a rank but for those on the launch queue, which depend on the order of launches.
std::vector<WaitOfItem> WaitsOf(const RankProgram& rank);

// Replaces the waits of a rank and adds those on its launch queue.
void SetWaitsAndQueue(RankProgram& rank, std::vector<WaitOfItem> waits);

// Makes `lanes` the items of each lane, in order; items that no lane holds are gone. Issuers,
// overheads and steps follow; waits, and members of rendezvous, are the caller's to bring along.
// Returns where each item is afterwards; kNoItem: gone.
std::vector<uint32_t> Rearrange(RankProgram& rank, const std::vector<std::vector<uint32_t>>& lanes);

// Has members of rendezvous follow their items. `places`: by rank, what Rearrange returned; empty:
// the rank is as it was.
void FollowItems(Program& program, const std::vector<std::vector<uint32_t>>& places);

}  // namespace foretrace
