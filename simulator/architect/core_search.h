#pragma once
// The branch and bound of one part of a layer (core_schedule.h).

#include <cstdint>

#include "simulator/architect/core_schedule.h"

namespace foretrace {

inline constexpr size_t kMaxSearchedOps = 64;

// `graph` has at most kMaxSearchedOps operators, in the topological order `order`; `cores` are
// positive.
CoreSchedule SearchSchedule(const CoreGraph& graph, const std::vector<int32_t>& order,
                            const CoreCounts& cores, const ScheduleLimits& limits);

}  // namespace foretrace
