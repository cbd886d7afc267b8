#include "simulator/mapping/host_costs.h"

#include <algorithm>

namespace foretrace {
namespace {

// Of the DRAM's rate, what a loop over long vectors on all cores gets. Assumed: two-socket servers
// reach about this with STREAM's triad.
constexpr double kStreamShare = 0.8;

// Bytes that the update of one weight moves in the host's memory, all in 32 bits but for `element`:
// the gradient is read for its norm, read and written to be clipped, then read with the master
// weight and both moments of Adam, which are written; and the weight in the model's type
// (DeepSpeed, csrc/adam/cpu_adam_impl.cpp; runtime/zero/stage3.py, unscale_and_clip_grads).
double UpdateBytes(double element) { return 4 + 8 + 4 * 4 + 3 * 4 + element; }

}  // namespace

double HostCosts::MemoryShare() const {
  return kStreamShare * p_.host_memory.bytes_per_second() / p_.devices_per_node;
}

double HostCosts::Inputs(double bytes) const {
  if (!p_.pageable_inputs) return Copy(bytes);
  // Each device's process has a core that moves them between the host's memory, which all share,
  // and a pinned buffer: beside the link's own accesses a read and a write.
  constexpr double kAccesses = 3;
  double rate = p_.host_link.bytes_per_second();
  if (p_.host_staging > Bandwidth()) rate = std::min(rate, p_.host_staging.bytes_per_second());
  if (const double memory = MemoryShare(); memory > 0) rate = std::min(rate, memory / kAccesses);
  return bytes / rate;
}

double HostCosts::Update(double own) const {
  double seconds = own * UpdateBytes(e_) / MemoryShare();
  if (m_.zero < 2) seconds += Copy(own * gradient_);
  if (!m_.offload_weights) seconds += Copy(own * e_);
  return seconds;
}

}  // namespace foretrace
