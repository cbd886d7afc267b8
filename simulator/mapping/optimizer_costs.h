#pragma once
// The update of the weights, once an iteration.

#include "simulator/mapping/host_costs.h"
#include "simulator/mapping/kernel_coster.h"

namespace foretrace {

// Keeps references to all.
class OptimizerCosts {
 public:
  OptimizerCosts(const TransformerConfig& model, const ParallelMapping& mapping,
                 const ClusterParameters& cluster, const HostCosts& host)
      : c_(model), m_(mapping), p_(cluster), host_(host), kernels_(cluster) {}

  // Mixed precision: the norm of the `own` gradients and clipping, Adam on 32-bit masters, the cast
  // to the model's type, and clearing of the `kept` gradients for the next iteration. On the host
  // where its states are.
  double Seconds(double own, double kept) const;

 private:
  double Clearing(double gradients) const;
  double Run(const OperatorCall& call) const;

  const TransformerConfig& c_;
  const ParallelMapping& m_;
  const ClusterParameters& p_;
  const HostCosts& host_;
  KernelCoster kernels_;
};

}  // namespace foretrace
