#pragma once

#include <optional>

#include "simulator/base/real_quantities.h"
#include "simulator/network/schedule_runner.h"
#include "simulator/topology/topology.h"

namespace foretrace {

// The time of a plan in which every rank sends the same to every other, with the bits of the full
// simulation; nullopt: another plan, or a platform whose nodes cannot change places.
std::optional<RealSeconds> FoldedDuration(const Topology& topology, const TransferPlan& plan);

}  // namespace foretrace
