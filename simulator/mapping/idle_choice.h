#pragma once

#include <string>

#include "simulator/mapping/parallel_mapping.h"

namespace foretrace {

// The first choice of a mapping that changes nothing in it, and why: "overlap: there is one
// replica"; empty: there is none. Choices at their default are none.
std::string IdleChoice(const ParallelMapping& mapping);

}  // namespace foretrace
