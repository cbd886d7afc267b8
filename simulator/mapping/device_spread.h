#pragma once
// Devices of one kind differ in speed, and whoever takes part in a collective waits for the
// slowest.

#include <cstdint>

#include "simulator/mapping/iteration_model.h"

namespace foretrace {

// Expected maximum of `count` independent standard normal variables; 0 for one.
double ExpectedMaximum(int64_t count);

// How many times as long as the median the slowest of `devices` takes. Devices at their power limit
// run at the clock that their silicon allows; others at the same.
double SlowestDevice(const ClusterParameters& cluster, int64_t devices);

}  // namespace foretrace
