#pragma once
// A what-if: device work that runs on another stream.

#include <vector>

#include "simulator/engine/edit.h"

namespace foretrace {

// Device work moves to another stream of its rank, on which it stands where the recording has it in
// time. It still waits for what came before it on its own stream and for what it waited for itself;
// what waited for it, or for later work of its own stream from elsewhere (the CPU, another stream),
// still does. What came after it on its own stream waits for it no more: it runs beside that.
// `streams`: by rank, the recorded stream; invalid: one that the recording lacks, whose work is
// reported on the stream that it comes from. Returns how many items moved.
size_t MoveToStream(Program& program, const ItemSet& items, const std::vector<LaneIndex>& streams);

}  // namespace foretrace
