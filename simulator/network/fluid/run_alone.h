#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "simulator/base/real_quantities.h"
#include "simulator/network/schedule_runner.h"
#include "simulator/topology/topology.h"

namespace foretrace {

// What one plan takes on an idle network.
struct PlanRun {
  RealSeconds time;
  int64_t flows = 0;   // of the plan, simulated one by one or not
  int64_t events = 0;  // simulated; 0: collapsed
  bool collapsed = false;
};

// Told now and then how many messages of how many have been simulated; false: end with Cancelled.
using FlowProgress = std::function<bool(int64_t done, int64_t total)>;

// Refuses a plan that could have more messages in flight at a time than can be simulated.
absl::Status CheckInFlight(const TransferPlan& plan);

// Runs a plan alone. With `collapse`, flows that are alike are computed from one of them: where all
// of a step are, and where every rank sends to every other on nodes that can change places; flows
// that never slow one another are added up along each rank's steps. The result has the same bits.
absl::StatusOr<PlanRun> RunAlone(const Topology& topology, const TransferPlan& plan, bool collapse,
                                 const FlowProgress& progress = {});

}  // namespace foretrace
