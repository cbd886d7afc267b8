#pragma once
// Devices that recordings name by words that no file has, by what their drivers state of them.

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "simulator/hardware/accelerator.h"

namespace foretrace {

// Zero: not stated.
struct StatedDevice {
  std::string name;
  int64_t multiprocessors = 0, warp = 0, memory_bytes = 0;
};

// The only one with as many multiprocessors, threads in step and, to a tenth, as much memory, whose
// vendor the name begins with ("AMD Radeon Graphics"); of several the only one whose model the name
// has ("NVIDIA H100"). Null where there is none, or still several.
const Accelerator* FindStated(std::span<const Accelerator> all, const StatedDevice& stated);

// The stated name; but where no file of topologies/accelerators/ has it, that of what FindStated
// finds. Errors: of AcceleratorCatalog::Load.
absl::StatusOr<std::string> NameOf(const StatedDevice& stated);

}  // namespace foretrace
