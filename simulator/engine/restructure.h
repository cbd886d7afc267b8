#pragma once
// What-ifs that change which work there is and how it is issued, on programs of recorded jobs.

#include <cstdint>
#include <functional>

#include "simulator/engine/edit.h"

namespace foretrace {

// Device work that is not done, and calls that issued nothing else, which cost nothing then. What
// waited for it waits for what came before it on its stream and for what it waited for itself. The
// other members of its transfers meet without it.
void RemoveDeviceWork(Program& program, const ItemSet& items);

// Which of the work belongs together: neighbours with one group do.
using GroupOf = std::function<uint32_t(uint32_t rank, const Item& item)>;

// Neighbouring kernels of a stream become one, as long as all of them together, in the place of the
// first: their launches and the gaps between them are saved. Returns how many are gone.
size_t FuseDeviceWork(Program& program, const ItemSet& items, const GroupOf& group_of);

// Launches that follow each other on a thread become one launch of a graph, which costs what the
// first of them did; the CPU time between them, and that of calls that neither launch nor block, is
// saved. A call that blocks, a step mark and other launches end a graph. Returns how many launches
// are gone.
size_t CaptureGraphs(Program& program, const ItemSet& items, const GroupOf& group_of);

}  // namespace foretrace
