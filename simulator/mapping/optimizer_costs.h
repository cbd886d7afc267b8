#pragma once
// The update of the weights, once an iteration.

#include "simulator/mapping/host_costs.h"
#include "simulator/mapping/kernel_coster.h"

namespace foretrace {

// Bytes of one of Adam's moments, and of all of the optimizer's states of a weight: the moments,
// and where the model is in fewer bits its master in 32.
int64_t MomentBytes(const ParallelMapping& mapping);
int64_t StateBytes(const TransformerConfig& model, const ParallelMapping& mapping);

// Keeps references to all.
class OptimizerCosts {
 public:
  OptimizerCosts(const TransformerConfig& model, const ParallelMapping& mapping,
                 const ClusterParameters& cluster, const HostCosts& host)
      : c_(model), m_(mapping), p_(cluster), host_(host), kernels_(cluster) {}

  // Mixed precision: the norm of the `own` gradients and clipping, Adam on 32-bit masters, the cast
  // to the model's type, and clearing of the `kept` gradients for the next iteration, with what the
  // software does to them before they are reduced. On the host where its states are.
  double Seconds(double own, double kept) const;

 private:
  double Clearing(double gradients) const;
  double BeforeReduction(double gradients) const;
  DType GradientType() const;
  double Run(const OperatorCall& call) const;
  double Adam(int64_t weights) const;

  const TransformerConfig& c_;
  const ParallelMapping& m_;
  const ClusterParameters& p_;
  const HostCosts& host_;
  KernelCoster kernels_;
};

}  // namespace foretrace
