#pragma once

#include <string>

#include "simulator/mapping/parallel_mapping.h"

namespace foretrace {

// The first choice of a mapping that changes nothing in it, and why: "overlap: there is one
// replica"; empty: there is none. Choices at their default are none.
std::string IdleChoice(const ParallelMapping& mapping);

// Whether some micro-batch goes forward while another goes backward (ParallelMapping::
// overlap_experts): its schedule does both in turn, and there are enough of them.
bool HasOppositePasses(const ParallelMapping& mapping);

}  // namespace foretrace
