#include "simulator/mapping/host_costs.h"

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

double HostCosts::Update(double own) const {
  const double memory = kStreamShare * p_.host_memory.bytes_per_second() / p_.devices_per_node;
  double seconds = own * UpdateBytes(e_) / memory;
  if (m_.zero < 2) seconds += Copy(own * gradient_);
  if (!m_.offload_weights) seconds += Copy(own * e_);
  return seconds;
}

}  // namespace foretrace
