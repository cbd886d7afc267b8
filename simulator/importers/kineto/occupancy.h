#pragma once

#include <cstdint>

#include "simulator/hardware/accelerator.h"
#include "simulator/importers/kineto/event.h"

namespace foretrace::kineto {

// How many times over a kernel's blocks fill the device, in thousandths (RankTrace::waves_milli);
// 0 when the event does not say, or the limits of a multiprocessor are not known.
uint32_t KernelWavesMilli(const Event& event, const OccupancyLimits& limits);

}  // namespace foretrace::kineto
