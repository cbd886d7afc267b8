#pragma once
// What a mapping costs before its kernels are partitioned, and the iteration's time after.

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/dataflow/mapping.h"

namespace foretrace::dataflow {

// Of more than one chip.
std::vector<NetworkDimension> NetworksOf(const System& system, Role role);

// Of the dimensions with a role, which exchange the bytes of so many samples at once.
TensorGroup GroupOf(const System& system, const Formulas& formulas, Role role, double samples = 1);

// Whether recomputation runs it again.
bool Repeats(Recompute recompute, const Kernel& kernel);

// Adam over the weights on a chip, of which it updates its share.
RealNs OptimizerTime(const System& system, const Workload& workload, const Mapping& mapping,
                     RealBytes weights);

class MappingCosts {
 public:
  // Errors: degrees that do not divide the batch.
  static absl::StatusOr<MappingCosts> Create(const Workload& workload, const System& system,
                                             const Formulas& formulas, const Mapping& mapping);

  // No sharding makes the mapping cheaper: each kernel by itself takes the least that any of its
  // shares does, and nothing is converted or reduced.
  static absl::StatusOr<MappingCosts> CreateLeast(const Workload& workload, const System& system,
                                                  const Formulas& formulas, const Mapping& mapping,
                                                  const KernelShares& shares);

  const PartitionCosts& partitions() const { return *parts_; }
  PartitionLimits limits() const;
  // Weights, optimizer state and what the backward pass reads: bytes on each chip that do not
  // depend on partitions. Infeasible where they are more than its memory.
  double ResidentBytes() const;
  // What they are made of: bytes for each byte of weights of the forward pass, of tensors that the
  // backward pass reads and of caches of a layer on a chip, and others.
  struct ResidentShares {
    double weights = 0, stash = 0, stored = 0, others = 0;
  };
  ResidentShares resident() const;
  absl::Status CheckResident() const;
  // `alone`: each kernel is a partition, so that the bound is the time.
  IterationTime LowerBound(bool alone) const;
  IterationTime TimeOf(const PassTime& pass) const;
  // Of a pass in these partitions, and what of them recomputation runs again.
  std::vector<Partition> RepeatedOf(const Partitioning& partitioning) const;
  PassTime PassOf(const Partitioning& partitioning) const;
  // Of an iteration whose passes take no less, whatever the sharding.
  RealNs Bound(RealNs pass) const;
  absl::StatusOr<MappedWorkload> Finish(Partitioning partitioning) const;

 private:
  MappingCosts(const Workload& workload, const System& system, const Formulas& formulas,
               const Mapping& mapping, const KernelShares* shares);
  void AddHead();
  RealNs KernelTime(size_t kernel, const KernelShares* shares) const;  // measured
  // Besides those that shardings need.
  std::vector<Exchange> OwnExchanges() const;
  std::vector<Exchange> AllExchanges() const;
  double SpreadGradientNs(size_t kernel) const;  // published: within the kernel's partition
  std::vector<double> KernelNetworkNs() const;
  double StoredBytes() const;    // of a layer, sample and chip
  double StashBytes() const;     // of a layer and sample, from forward to backward
  double GradientBytes() const;  // of a stage's layers on a chip
  RealNs LayerReductionTime() const;
  RealNs GradientTime(const PassTime& pass) const;
  KernelSet Repeated() const;         // by recomputation
  double ForwardWeightBytes() const;  // of a layer on a chip
  double ReadApartBytes() const;      // kEarly: weights and own bytes of both passes

  const Workload* workload_;
  Formulas formulas_;
  Mapping mapping_;
  int64_t layers_per_stage_ = 1;
  double micro_batches_ = 1;
  // Behind pointers: costs refer to what they were made of, and this may move.
  std::unique_ptr<System> system_;
  std::unique_ptr<ShardedWorkload> sharded_;
  std::unique_ptr<PartitionCosts> parts_;
  // Of Workload::head for a micro-batch; its weights on a chip.
  double head_ns_ = 0, head_weight_bytes_ = 0;
};

}  // namespace foretrace::dataflow
