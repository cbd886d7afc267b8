#pragma once

#include <cstdint>
#include <optional>

#include "simulator/base/units.h"
#include "simulator/hardware/accelerator.h"
#include "simulator/importers/kineto/event.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace::kineto {

// What the event of a kernel, or of the call that launched it, says of its launch: blocks and warps
// for each multiprocessor, else its grid and block (ROCm's profiles, by the call alone), and what a
// block takes of a multiprocessor. Zero: it does not say.
struct KernelLaunch {
  double blocks = 0, warps = 0;
  double grid = 0, block = 0;  // blocks of all, threads of one
  double registers = 0;        // of a thread
  double shared_bytes = 0;
  std::optional<uint32_t> exact_waves_milli;  // of predictions
  std::optional<LaunchAttr> attr;             // the grid and block that it states

  bool known() const {
    return exact_waves_milli.has_value() || (blocks > 0 && warps > 0) || (grid > 0 && block > 0);
  }
};
KernelLaunch KernelLaunchOf(const Event& event);

// The launch of a copy within the device's memory, of which profiles state the bytes alone: each
// thread is taken to copy what its widest access moves.
KernelLaunch CopyLaunchOf(Bytes bytes);

// How many times over a kernel's blocks fill the device, in thousandths (RankTrace::waves_milli);
// 0 when the limits of a multiprocessor are not known, or how many there are where the grid says
// the blocks (`multiprocessors` 0).
uint32_t KernelWavesMilli(const KernelLaunch& launch, const OccupancyLimits& limits,
                          int32_t multiprocessors);

}  // namespace foretrace::kineto
