#pragma once
// Intra-chip mapping: which kernels a chip runs at once (fused, streaming tiles from one to the
// next through SRAM), and what such a partition takes (DFModel section V).

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/dataflow/core_allocation.h"
#include "simulator/dataflow/sharding.h"
#include "simulator/dataflow/system.h"
#include "simulator/dataflow/workload.h"

namespace foretrace::dataflow {

using KernelSet = uint64_t;  // a bit a kernel
inline bool Has(KernelSet set, int64_t kernel) { return ((set >> kernel) & 1) != 0; }
// Visits the kernels of a set in ascending order, each as a size_t.
template <typename Visit>
void ForEach(KernelSet set, const Visit& visit) {
  for (; set != 0; set &= set - 1) visit(static_cast<size_t>(std::countr_zero(set)));
}

enum class Overlap : uint8_t {
  kByMachine,  // dataflow machines overlap, others do one after another
  kMaximum,    // a partition takes the longest of compute, memory and network
  kSum
};

// How often a kernel reads weights that its chip cannot hold, from off chip for each micro-batch.
enum class StreamedWeights : uint8_t {
  // In the best order of loops: what is smaller of input and result stays, a part at a time, and
  // weights pass by; or weights stay, a part at a time, and the input passes by.
  kLeast,
  // A tile of input and result stays and weights pass by, once for each tile: the published times
  // of figure 22.
  kEachTile,
};
double TimesRead(StreamedWeights rule, const ShardedKernel& sharded, RealBytes word_bytes,
                 double micro_batch, Bytes sram);

// What the time of a partition is made of.
struct PartitionRules {
  Overlap overlap = Overlap::kByMachine;
  double compute_utilisation = 0.9;  // of the peak; 0: cycles of allocated tiles
  // Measured, by kernel, with what it reads and writes, for a micro-batch; empty: none are.
  std::vector<RealNs> kernel_times;
  // Weights come from DRAM for every micro-batch.
  bool load_weights = true;
  StreamedWeights streamed = StreamedWeights::kLeast;
  // Kernels' memory_bytes are not in their partition's time.
  bool read_apart = false;
  int64_t tiles = 1;       // pieces that the tiled axis is cut into
  double micro_batch = 1;  // samples that stream through a partition, one after another
};

struct Partition {
  KernelSet kernels = 0;
  RealNs compute, memory, network;
  RealNs time;
  RealBytes sram_bytes, dram_traffic_bytes;
  std::vector<TileAllocation> allocation;  // in order of kernels; empty where by utilisation
};

// Of a tile of the kernel's result: the tiled axis is cut into pieces, rounded up.
RealBytes TileBytes(const Kernel& kernel, const ShardedKernel& sharded, int64_t tiles);

// By kernel, one for each sharding.
using KernelShares = std::vector<std::vector<ShardedKernel>>;

// Costs of sets of kernels; a partition's cost depends on its set alone. The inner loop of
// searches: bare numbers are nanoseconds and bytes.
class PartitionCosts {
 public:
  // What a kernel adds to the network's time besides its sharding, ns for a sample. With
  // `alternatives`, each kernel's shares in any of its shardings, of which `sharded` holds the
  // least: no sharding costs less, whatever the others'.
  PartitionCosts(const Workload& workload, const ShardedWorkload& sharded, const System& system,
                 const PartitionRules& rules, std::vector<double> network_ns,
                 const KernelShares* alternatives = nullptr);

  // nullopt: the set does not fit into SRAM, or has more kernels than the chip has tiles. One
  // kernel with weights alone always fits: it streams them.
  std::optional<Partition> Of(KernelSet set) const;
  // Its time where that is below `limit`, else infinity; as Of, and cheaper.
  double TimeBelow(KernelSet set, double limit) const;
  double SramBytes(KernelSet set) const;
  // Parts of a partition's cost that add up over its kernels, so that the difference of two nested
  // sets bounds the cost of what is between them.
  struct Additive {
    double compute_ns = 0, memory_ns = 0, network_ns = 0, weight_bytes = 0;
  };
  Additive SumOf(KernelSet set) const;
  // Whether a partition of several kernels between two nested sets may take less than `limit`.
  bool MayTakeLess(const Additive& less, const Additive& more, double limit) const;
  // Tensors in DRAM while the partition `after` minus `before` runs, of all that is done by then.
  double LiveBytes(KernelSet before, KernelSet after) const;
  // No partitioning of the kernels takes less.
  double LowerBoundNs() const;
  // As a partition by itself; infinity where it does not fit.
  double AloneNs(size_t kernel) const;
  bool overlaps() const { return overlaps_; }
  // What partitions' costs are made of, by kernel and tensor, bytes of all samples.
  double KernelSramBytes(size_t kernel) const { return sram_bytes_[kernel]; }
  double TileBytesOf(size_t tensor) const { return tile_bytes_[tensor]; }
  double TilesUnderWay(size_t tensor) const { return depth_[tensor]; }
  double TensorBytes(size_t tensor) const {
    return sharded_.tensors[tensor].bytes.count() * rules_.micro_batch;
  }
  double MemoryNs(double bytes) const;
  double SramCapacity() const;
  const std::vector<KernelSet>& predecessors() const { return predecessors_; }
  size_t size() const { return sharded_.kernels.size(); }
  const PartitionRules& rules() const { return rules_; }

 private:
  double MeasuredNs(KernelSet set) const;
  double OwnBytes(size_t kernel) const;
  double ComputeNs(KernelSet set, std::vector<TileAllocation>* allocation) const;
  double Combined(double compute_ns, double memory_ns, double network_ns) const;
  bool Streams(KernelSet set) const;  // one kernel that may have more weights than fit

  const Workload& workload_;
  const ShardedWorkload& sharded_;
  const System& system_;
  PartitionRules rules_;
  std::vector<double> network_ns_;      // by kernel
  std::vector<double> sram_bytes_;      // by kernel: weights, and two tiles of what is stored
  std::vector<double> weight_traffic_;  // by kernel, for each micro-batch
  std::vector<double> tile_bytes_;      // by tensor
  std::vector<double> depth_;           // by tensor: tiles under way between its ends
  std::vector<KernelSet> predecessors_;
  std::vector<std::vector<TileAllocation>> allocations_;  // by kernel: Pareto front
  bool overlaps_ = false;
};

// Of a kernel's share of a tile of data.
std::vector<TileAllocation> AllocationsOf(const Chip& chip, const Kernel& kernel,
                                          const ShardedKernel& sharded, int64_t tiles);

struct PartitionLimits {
  int partitions = 0;  // 0: as many as kernels; of a workload that trains, half for each pass
  bool apart = true;   // forward and backward kernels do not share a partition
  bool kernel_by_kernel = false;
  RealBytes dram_bytes;  // for tensors between partitions; 0: not limited
};

struct Partitioning {
  std::vector<Partition> partitions;  // in order
  RealNs time;
  RealBytes dram_bytes;  // tensors between partitions, where they are most
  // Least that any partitioning takes; equal to `time` where the search was exact.
  RealNs bound;
};

// Passes, each of which has partitions of its own, and how many.
struct PassPartitions {
  std::vector<KernelSet> passes;  // in order
  int most = 0;                   // partitions of each
};
PassPartitions PassesOf(const Workload& workload, const PartitionLimits& limits);

// The fastest: a shortest path over the lattice of downsets. Exact up to kMaxDownsets of them; with
// more, kernels that nothing reads run with the last of what they read, or kernels run in the order
// that they are in, and `bound` says how far the result may be from the best
// (partition_program.h goes on from there). Errors: nothing fits, with what is missing.
inline constexpr size_t kMaxDownsets = 40'000;
absl::StatusOr<Partitioning> SolvePartitions(const Workload& workload, const PartitionCosts& costs,
                                             const PartitionLimits& limits);

// The time of a given assignment of kernels to partitions. Errors: a tensor leads to an earlier
// partition; a partition does not fit, by how much.
absl::StatusOr<Partitioning> EvaluatePartitions(const Workload& workload,
                                                const PartitionCosts& costs,
                                                const std::vector<int>& partition_of);

}  // namespace foretrace::dataflow
