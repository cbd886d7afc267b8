#pragma once
// All-reduces by one kernel that reads the buffers of the other devices of its node itself: those
// of serving engines (vLLM, SGLang) and of PyTorch's symmetric memory, also with the switch adding
// up (multimem). They run as kernels, not as NCCL's collectives, and recordings name them so.

#include <cstdint>
#include <optional>
#include <string_view>

#include "simulator/base/time.h"
#include "simulator/base/units.h"
#include "simulator/hardware/accelerator.h"

namespace foretrace {

struct PeerReduction {
  bool in_switch = false;  // which reads all devices' values and returns their sum
  // Each rank sums its share alone and all get it; else each sums everything.
  bool shares = false;
  int32_t barriers = 1;  // waits for all others before data are read, or after the last write
  int64_t threads = 0;   // the most there are, each with 16 bytes under way; 0: links bound it
};
// nullopt: another kernel. Linear in the name's length.
std::optional<PeerReduction> PeerReductionOf(std::string_view kernel);

// Of `bytes` on each of `ranks` devices, which `links` join through a switch; ranks at least 2.
// That ranks arrive apart is left out. nullopt: links are not known.
std::optional<SimTime> TimeOf(const PeerReduction& reduction, const DeviceLinks& links,
                              int32_t ranks, Bytes bytes);

}  // namespace foretrace
