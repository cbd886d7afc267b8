#pragma once

#include <optional>

#include "simulator/network/schedule_runner.h"
#include "simulator/topology/topology.h"

namespace foretrace {

// Seconds of a plan in which every rank sends the same to every other, with the bits of the full
// simulation; nullopt: another plan, or a platform whose nodes cannot change places.
std::optional<double> FoldedDuration(const Topology& topology, const TransferPlan& plan);

}  // namespace foretrace
