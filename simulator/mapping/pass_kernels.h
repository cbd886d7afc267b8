#pragma once
// Kernels of a pass by what they need of a device, and what they lose to a collective beside them.

#include <vector>

#include "simulator/cost/kernel/kernels_beside.h"

namespace foretrace {

class PassKernels {
 public:
  // Alike ones are one.
  void Add(const KernelDemand& demand, double seconds);
  // `share` of the time of others.
  void Add(const PassKernels& others, double share = 1);
  bool empty() const { return kernels_.empty(); }
  double seconds() const;
  // How many times as long they take beside what holds so much; 1: there are none.
  double TimesBeside(const SharedDevice& device, const HeldDevice& held) const;

 private:
  struct Alike {
    KernelDemand demand;
    double seconds;
  };
  std::vector<Alike> kernels_;
};

// What kernels that take `alone` seconds by themselves, and `times` as long beside a collective,
// take longer where it runs for `window` seconds from their start on.
double LostBeside(double alone, double times, double window);

}  // namespace foretrace
