#pragma once
// What a mapping that keeps states on the host moves to it and back, and computes there, in
// seconds.

#include "simulator/mapping/iteration_model.h"

namespace foretrace {

// Keeps references to both. `element`, `gradient`: bytes of a weight and of a gradient.
class HostCosts {
 public:
  HostCosts(const ParallelMapping& mapping, const ClusterParameters& cluster, double element,
            double gradient)
      : m_(mapping), p_(cluster), e_(element), gradient_(gradient) {}

  // A device's own share, by elements: of weights on their way to it, and of gradients that are
  // kept on the host on their way there; 0 where the mapping leaves them on the device.
  double Weights(double own) const { return m_.offload_weights ? Copy(own * e_) : 0; }
  double Gradients(double own) const {
    return m_.offload && m_.zero >= 2 ? Copy(own * gradient_) : 0;
  }
  // Of so many bytes of kept inputs, to the host or back.
  double Inputs(double bytes) const;
  // Once an iteration: gradients that stayed on the device until now, the update by the host's
  // processors, and new weights that the device keeps.
  double Update(double own) const;

 private:
  // Of the host's memory, bytes per second of a device; 0: not stated.
  double MemoryShare() const;
  double Copy(double bytes) const { return bytes / p_.host_link.bytes_per_second(); }

  const ParallelMapping& m_;
  const ClusterParameters& p_;
  double e_, gradient_;
};

}  // namespace foretrace
