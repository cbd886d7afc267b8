#pragma once
// A whole mapping of a workload onto a system, what it takes, and the best one.

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/dataflow/kernel_times.h"
#include "simulator/dataflow/partition.h"
#include "simulator/mapping/parallel_mapping.h"

namespace foretrace::dataflow {

// How passes of the graph add up to an iteration. The published ones are for comparison.
enum class IterationRule : uint8_t {
  // Pipeline of micro-batches with a bubble of stages - 1 of them; weights read for each; gradients
  // reduced and the optimizer run once; optimizer state, gradients and what the backward pass reads
  // are in DRAM.
  kPhysical,
  // The paper's explorations: weights are never read, the bubble shrinks with layers a stage, the
  // reduction of gradients is spread over micro-batches.
  kDse,
  // Weights, and what kernels read besides tensors, are read once for every micro-batch, after it;
  // transfers between stages are behind a layer's work; bubbles are those of a plain pipeline.
  kEarly,
  kCount
};
std::string_view Name(IterationRule rule);
absl::StatusOr<IterationRule> ParseIterationRule(std::string_view text);

struct Formulas {
  IterationRule iteration = IterationRule::kPhysical;
  AllReduceFormula all_reduce = AllReduceFormula::kPhysical;
  Overlap overlap = Overlap::kByMachine;
  double compute_utilisation = 0.9;  // 0: by cycles of allocated tiles
  StreamedWeights streamed = StreamedWeights::kLeast;
  // Instead of both, and of the time of memory; for machines that run kernel by kernel. Not owned.
  const KernelTimes* kernel_times = nullptr;
};

// How an iteration that trains is run, in the words of other mappings (ParallelMapping): given, not
// searched. By the physical rule alone.
struct TrainingScheme {
  // Chunks of a stage's layers; more than one: interleaved 1F1B (Narayanan et al., 2021, section
  // 2.2), whose bubble is that of one chunk.
  int64_t chunks = 1;
  // 1: replicas divide the optimizer's state among them (ZeRO). Gradients are then scattered, and
  // weights gathered.
  int zero = 0;
  // Layers' gradients are reduced behind the backward pass of earlier layers, and weights gathered
  // behind the forward pass.
  bool overlap_gradients = false;
  auto operator<=>(const TrainingScheme&) const = default;
};

struct Mapping {
  std::vector<Role> roles;  // of the system's dimensions
  int64_t tensor = 1, pipeline = 1, data = 1;
  double micro_batch = 1;
  int64_t tiles = 1;
  // What runs forward again instead of keeping what backward reads: kNone, kSelective, kFull.
  Recompute recompute = Recompute::kNone;
  TrainingScheme scheme;
  Shardings shardings;
  std::vector<int> partition_of;  // by kernel
};

// One micro-batch through a layer, forward and backward once.
struct PassTime {
  RealNs whole;
  RealNs forward;
  RealNs repeated;  // of the forward pass, what recomputation runs again
};

// What an iteration's time is made of.
struct IterationTime {
  RealNs pass;      // one micro-batch through a layer, with what is recomputed
  RealNs stage;     // through the layers of a stage
  RealNs transfer;  // between stages: beyond what overlaps
  RealNs bubble;
  RealNs head;      // of Workload::head, which all micro-batches wait for
  RealNs gradient;  // reduced over replicas beyond what overlaps, not within partitions
  RealBytes gradient_bytes;
  RealNs layer_reduction;  // of a layer's gradients, where they overlap; else zero
  RealNs optimizer;
  RealNs total;
};

// What a kernel exchanges with other chips, for one sample.
struct Exchange {
  enum class Kind : uint8_t {
    kAllReduce,
    kAllGather,
    kAllToAll,
    kBroadcast,
    kReduceScatter,
    kCount
  };
  int kernel = 0;
  Kind kind = Kind::kAllReduce;
  Role role = Role::kTensor;  // of the dimensions that it runs over
  RealBytes bytes;            // on each chip: what is reduced, gathered, sent
  RealNs time;
};

std::string_view Name(Exchange::Kind kind);

struct MappedWorkload {
  Mapping mapping;
  Partitioning partitioning;
  std::vector<Partition> repeated;  // that recomputation runs again
  IterationTime time;
  int64_t layers_per_stage = 1;
  double micro_batches = 1;  // of a pipeline
  double utilisation = 0;    // of the system's peak
  RealBytes dram;            // of the fullest chip
  Flop flop_per_chip;        // of one micro-batch and layer
  RealBytes network;         // link bandwidth times network time of them: the roofline's other axis
  std::vector<Exchange> exchanges;
  std::vector<ShardedTensor> tensors;  // of one sample
  int64_t candidates = 0, pruned = 0;
  // No mapping that was asked for takes less, whatever its shardings, where those were not given.
  RealNs bound;
  bool shardings_given = false;

  RealBytes dram_traffic() const;
  bool proven() const { return partitioning.bound >= (1 - 1e-12) * partitioning.time; }
  // Beyond the best, at most.
  double gap() const {
    return bound > RealNs() ? std::max(0.0, time.total.ns() / bound.ns() - 1) : 0;
  }
};

// Which mappings the optimiser may choose from.
struct SearchLimits {
  std::optional<Shardings> shardings;  // given, instead of solved
  // Of Megatron: along heads and the inner size of the FFN; kSequence: between them along the
  // sequence.
  enum class Megatron : uint8_t { kNo, kTensor, kSequence } megatron = Megatron::kNo;
  int64_t tiles = 0;       // 0: any
  double micro_batch = 0;  // 0: any
  std::optional<Recompute> recompute;
  TrainingScheme scheme;
  std::optional<std::vector<int>> partition_of;
  // Where kernels are fused or overlap and there are no more shardings than that, all are tried.
  size_t every = 512;
};

// Errors: does not fit, by how much; sizes that do not divide.
absl::StatusOr<MappedWorkload> Evaluate(const Workload& workload, const System& system,
                                        const Formulas& formulas, const Mapping& mapping);

// The least iteration time over roles of the dimensions (TP, PP, DP), micro-batches, tiles,
// shardings (sharding_candidates.h) and all partitionings. Candidates whose lower bound is no
// better are passed over. Errors: the system lacks what the model needs; nothing fits, with what is
// nearest to it.
absl::StatusOr<MappedWorkload> Optimise(const Workload& workload, const System& system,
                                        const Formulas& formulas, const SearchLimits& limits);

// Errors: no chip, memory or network facts that the model needs; names them.
absl::Status CheckSystem(const System& system);

}  // namespace foretrace::dataflow
