#include "simulator/cost/kernel/scan_steps.h"

#include <algorithm>
#include <cmath>

#include "simulator/cost/kernel/vector_rates.h"

namespace foretrace {

// aten/src/ATen/native/cuda/ScanUtils.cuh, tensor_kernel_scan_innermost_dim: the threads of a row
// take two elements each, add up by halves and hand sums down again, and meet after each, then go
// on with the next elements.
int64_t TripsOfScan(const Launch& launch, const ElementAccess& access) {
  // Between two meetings: a load from shared memory, a sum and a store ("Dissecting the NVIDIA
  // Volta GPU architecture via microbenchmarking", 2018: 19 and 4 cycles), and a barrier about as
  // long.
  constexpr double kMeetingCycles = 19 + 4 + 19 + 19;
  if (launch.name.find("tensor_kernel_scan_innermost_dim<") == launch.name.npos) return 0;
  if (launch.attr == nullptr || access.rows <= 0 || launch.attr->block[0] == 0) return 0;
  const double threads = launch.attr->block[0];
  const double columns = static_cast<double>(access.elements) / static_cast<double>(access.rows);
  const double held = std::max(launch.attr->blocks() * launch.attr->block[1], 1.0);
  const double rows = std::max(std::ceil(static_cast<double>(access.rows) / held), 1.0);
  const double waves = std::max(launch.waves_milli / 1000.0, 1.0);
  const double turns = std::ceil(columns / (2 * threads)) * rows * waves;
  const double cycles = kTripCycles + (2 * std::log2(threads) + 1) * kMeetingCycles;
  constexpr double kMost = 1e12;
  return 1 + std::llround(std::min(turns * cycles / kTripCycles, kMost));
}

}  // namespace foretrace
