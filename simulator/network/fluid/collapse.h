#pragma once
// Shortcuts for symmetric collectives on an idle network. They follow the arithmetic of the full
// simulation operation by operation, so the result has the same bits; where symmetry is not certain
// they decline.

#include <optional>

#include "simulator/base/real_quantities.h"
#include "simulator/network/schedule_runner.h"
#include "simulator/topology/topology.h"

namespace foretrace {

// The time from the call to the last delivery where in every step all flows are alike (same size,
// rate and latency) and every rank takes part: the ranks move in lock-step, so one flow per step
// stands for all. nullopt where that is not so.
std::optional<RealSeconds> CollapsedDuration(const Topology& topology, const TransferPlan& plan);

}  // namespace foretrace
