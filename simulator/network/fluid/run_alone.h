#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "simulator/network/schedule_runner.h"
#include "simulator/topology/topology.h"

namespace foretrace {

// What one plan takes on an idle network.
struct PlanRun {
  double seconds = 0;
  int64_t flows = 0;   // of the plan, simulated one by one or not
  int64_t events = 0;  // simulated; 0: collapsed
  bool collapsed = false;
};

// Runs a plan alone. With `collapse`, steps whose flows are all alike are computed from one of
// them; the result has the same bits.
absl::StatusOr<PlanRun> RunAlone(const Topology& topology, const TransferPlan& plan, bool collapse);

}  // namespace foretrace
