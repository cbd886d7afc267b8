#pragma once
// A shortcut for collectives in which every rank passes one message on at a time and none slows
// another, though hops differ in rate or latency, so that ranks drift apart (rings from node to
// node over the levels of a fabric).

#include <optional>

#include "absl/status/statusor.h"
#include "simulator/base/real_quantities.h"
#include "simulator/network/fluid/run_alone.h"
#include "simulator/network/schedule_runner.h"
#include "simulator/topology/topology.h"

namespace foretrace {

// The time from the call to the last delivery, with the bits of the full simulation: the time at
// which a rank enters its next step is the later of its own message's departure and the arrival of
// the message to it, whatever other ranks do. nullopt: another plan, or links that messages of
// different ranks could fill. Cancelled: `progress` said so.
absl::StatusOr<std::optional<RealSeconds>> UnsharedDuration(const Topology& topology,
                                                            const TransferPlan& plan,
                                                            const FlowProgress& progress);

}  // namespace foretrace
