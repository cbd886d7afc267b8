#pragma once
// Scans along rows, whose threads meet after each addition.

#include <cstdint>

#include "simulator/cost/kernel/launched_kernels.h"
#include "simulator/cost/operator/trace_operator.h"

namespace foretrace {

// What PyTorch's scan of `access.rows` rows waits for, in trips of a thread to memory; 0: another
// kernel, or its launch is not known.
int64_t TripsOfScan(const Launch& launch, const ElementAccess& access);

}  // namespace foretrace
