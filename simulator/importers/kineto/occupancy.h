#pragma once

#include <cstdint>
#include <optional>

#include "simulator/hardware/accelerator.h"
#include "simulator/importers/kineto/event.h"

namespace foretrace::kineto {

// What a kernel's event says of its launch: blocks and warps for each multiprocessor, and what a
// block takes of one. Zero: it does not say.
struct KernelLaunch {
  double blocks = 0, warps = 0;
  double registers = 0;  // of a thread
  double shared_bytes = 0;
  std::optional<uint32_t> exact_waves_milli;  // of predictions

  bool known() const { return exact_waves_milli.has_value() || (blocks > 0 && warps > 0); }
};
KernelLaunch KernelLaunchOf(const Event& event);

// How many times over a kernel's blocks fill the device, in thousandths (RankTrace::waves_milli);
// 0 when the limits of a multiprocessor are not known.
uint32_t KernelWavesMilli(const KernelLaunch& launch, const OccupancyLimits& limits);

}  // namespace foretrace::kineto
