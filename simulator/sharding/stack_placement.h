#pragma once
// Placements that training software makes by itself.

#include "simulator/sharding/plan.h"

namespace foretrace {

// Tables in falling order of elements, later ones first among equals, dealt to the ranks in turn
// and back again: so many on each rank, and about equal memory. Tables of more than
// `task.slice_elements` are halved by columns until none of a table's slices is larger; slices
// that come to one rank are one. distributed-embeddings calls this memory_balanced.
ShardingPlan DealtBySize(const ShardingTask& task);

}  // namespace foretrace
