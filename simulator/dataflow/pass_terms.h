#pragma once
// What shardings add to the terms of a pass (computation, memory, network), each a sum over kernels
// and tensors, in nanoseconds of a micro-batch through a layer.

#include <cstdint>

#include "simulator/dataflow/mapping_costs.h"

namespace foretrace::dataflow {

// Whether partitions take the longest of their terms, rather than the sum.
bool Overlaps(const System& system, const Formulas& formulas);

class PassTerms {
 public:
  // All outlive the terms. `system` has the roles of `mapping`, whose shardings and partitions are
  // not looked at.
  PassTerms(const Workload& workload, const System& system, const Formulas& formulas,
            const Mapping& mapping);

  double ComputeNs(size_t i, const ShardedKernel& k) const;  // alone on a chip
  // No more than beside other kernels.
  double SharedNs(size_t i, const ShardedKernel& k) const;
  double WeightNs(const ShardedKernel& k) const;
  double StoredNs(const ShardedKernel& k) const;
  double NetworkNs(double ns) const { return ns * mapping_.micro_batch; }
  // Written by one partition and read by another.
  double CrossingNs(double bytes) const;
  // What an iteration adds to its passes for this kernel, as a share of each: latencies of
  // reductions over replicas once for each kernel. Reductions that overlap are left out.
  double IterationNs(size_t i, const ShardedKernel& k) const;
  // Reductions over replicas are one: what IterationNs counts of their latency more than once, of
  // an iteration.
  double RepeatedLatencyNs() const;
  // How often the kernel's pass runs.
  double Times(size_t i) const { return Repeats(mapping_.recompute, workload_.kernels[i]) ? 2 : 1; }
  double passes() const { return passes_; }  // of a micro-batch through a layer, in an iteration

 private:
  double PeakNs(const ShardedKernel& k) const;

  const Workload& workload_;
  const System& system_;
  const Formulas& formulas_;
  const Mapping& mapping_;
  TensorGroup replicas_;
  double layers_ = 1, micro_batches_ = 1, passes_ = 1;
};

}  // namespace foretrace::dataflow
