#pragma once
// What kernels take on a cluster's devices.

#include <optional>

#include "simulator/cost/operator/kernel_work.h"
#include "simulator/mapping/iteration_model.h"

namespace foretrace {

// How a GEMM runs.
struct GemmForm {
  bool eight_bit = false, four_bit = false;
  bool backward = false;  // its gradients: partial sums are promoted to 32 bits as it goes
  double share = 1;       // of the device's multiprocessors that it has
};

// Kernels as the device's calibration has them, where it was found; else at a share of the peaks.
class KernelCoster {
 public:
  explicit KernelCoster(const ClusterParameters& cluster) : p_(cluster) {}
  SimTime Time(const KernelWork& work, CostSources& sources, const GemmForm& form = {}) const {
    return SimTime::FromSeconds(Seconds(work, sources, form));
  }
  // nullopt: no kernels are known of the device.
  std::optional<KernelDemand> Demand(const KernelWork& work) const {
    return p_.measured != nullptr ? p_.measured->Demand(work) : std::nullopt;
  }
  // Of a call's kernels, forward, in seconds.
  double CallSeconds(const OperatorCall::Shape& shape, DType dtype, CostSources& sources) const {
    return Time(Kernels({shape, dtype, Direction::kForward}), sources).seconds();
  }
  // Sum over kernels that run one after another.
  SimTime Time(const KernelList& list, CostSources& sources) const {
    return SimTime::FromSeconds(Seconds(list, sources));
  }

 private:
  // Unrounded.
  double Seconds(const KernelWork& work, CostSources& sources, const GemmForm& form = {}) const;
  double Seconds(const KernelList& list, CostSources& sources) const;
  Estimate Measured(const KernelWork& work) const {
    return p_.measured != nullptr ? p_.measured->KernelTime(work) : Roofline(work);
  }
  Estimate Roofline(const KernelWork& work) const;
  // By how much software's own kernels of fused attention take longer than the device's best,
  // which take `seconds`.
  double AttentionLoss(const KernelWork& work, double seconds) const;
  // The kernels that software runs before and after the one that computes fused attention's
  // gradients, unless the operator was measured as a whole.
  double AroundAttentionGradient(const KernelWork& work, CostSources& sources) const;

  const ClusterParameters& p_;
};

}  // namespace foretrace
