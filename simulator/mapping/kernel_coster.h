#pragma once
// What kernels take on a cluster's devices.

#include "simulator/cost/operator/kernel_work.h"
#include "simulator/mapping/iteration_model.h"

namespace foretrace {

// Kernels as the device's calibration has them, where it was found; else at a share of the peaks.
class KernelCoster {
 public:
  explicit KernelCoster(const ClusterParameters& cluster) : p_(cluster) {}
  double Seconds(const KernelWork& work, CostSources& sources, bool eight_bit = false) const;
  // Sum over kernels that run one after another.
  double Seconds(const KernelList& list, CostSources& sources) const;

 private:
  Estimate Roofline(const KernelWork& work) const;

  const ClusterParameters& p_;
};

}  // namespace foretrace
