#pragma once

#include <string>

#include "simulator/mapping/parallel_mapping.h"

namespace foretrace {

// The first choice of a mapping that changes nothing in it, and why: "overlap: there is one
// replica"; empty: there is none. Choices at their default are none.
std::string IdleChoice(const ParallelMapping& mapping);

// The same of a mapping's words: one whose number is 0, which is what there is without it.
// `shards`: software divides weights among fewer replicas than all by itself, which hsdp0 undoes.
std::string IdleWord(const std::string& words, bool shards);

// Whether some micro-batch goes forward while another goes backward (ParallelMapping::
// overlap_experts): its schedule does both in turn, and there are enough of them.
bool HasOppositePasses(const ParallelMapping& mapping);

}  // namespace foretrace
