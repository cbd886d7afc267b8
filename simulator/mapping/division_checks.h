#pragma once
// Among which replicas what they hold can be divided.

#include "absl/status/status.h"
#include "simulator/mapping/parallel_mapping.h"

namespace foretrace {

// Of groups of replicas, of a second partition of the weights, and of gathers in fewer bits.
// Errors: infeasible.
absl::Status CheckShards(const ParallelMapping& mapping);

}  // namespace foretrace
