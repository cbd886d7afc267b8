#pragma once
// Energy of the reported step, by the power of the devices that it was recorded on.

#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/cost/power/power_model.h"
#include "simulator/hardware/catalog.h"
#include "simulator/report/rank_summary.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// At most: a device that works takes what it is rated for; one that waits the same, or what was
// measured of an idle one (calibration/, power.yaml) where it was.
struct EnergyUse {
  std::string device;
  double rated_w = 0, idle_w = 0;  // of a device; idle_w 0: not measured
  size_t devices = 0;
  double joules = 0;  // of a step, of all devices
  SimTime period;     // from one step to the next
};

// `period` zero: each rank's own window counts. Errors: ranks of devices that differ, that no file
// is of, or whose power it does not state.
absl::StatusOr<EnergyUse> EnergyOfStep(const TraceStore& store, std::span<const RankSummary> ranks,
                                       SimTime period, const AcceleratorCatalog& accelerators,
                                       std::span<const PowerModel> measured);

// The models of calibration/.
absl::StatusOr<std::vector<PowerModel>> ShippedPower();

std::string EnergyText(const EnergyUse& use);
std::string EnergyJson(const EnergyUse& use);

}  // namespace foretrace
