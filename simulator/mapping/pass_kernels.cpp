#include "simulator/mapping/pass_kernels.h"

#include <algorithm>

namespace foretrace {

void PassKernels::Add(const KernelDemand& demand, double seconds) {
  if (seconds <= 0) return;
  const auto same = std::find_if(kernels_.begin(), kernels_.end(),
                                 [&](const Alike& a) { return a.demand == demand; });
  if (same != kernels_.end()) {
    same->seconds += seconds;
  } else {
    kernels_.push_back({demand, seconds});
  }
}

void PassKernels::Add(const PassKernels& others, double share) {
  for (const Alike& a : others.kernels_) Add(a.demand, a.seconds * share);
}

double PassKernels::seconds() const {
  double sum = 0;
  for (const Alike& a : kernels_) sum += a.seconds;
  return sum;
}

double PassKernels::TimesBeside(const SharedDevice& device, const HeldDevice& held) const {
  double beside = 0;
  for (const Alike& a : kernels_) {
    beside += a.seconds * foretrace::TimesBeside(a.demand, device, held);
  }
  return beside > 0 ? beside / seconds() : 1;
}

double LostBeside(double alone, double times, double window) {
  return std::min(alone * (times - 1), window * (1 - 1 / times));
}

}  // namespace foretrace
