#pragma once
// Inter-chip mapping: along which axis each kernel is divided over the chips of a tensor-parallel
// group, what its partial results then cost to reduce, and tensors to bring into the layout that
// their consumer reads (DFModel section IV). Exact.

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/dataflow/collective_time.h"
#include "simulator/dataflow/kernel_times.h"
#include "simulator/dataflow/workload.h"

namespace foretrace::dataflow {

// Along which axis chips divide a kernel; kCount: every chip computes all of it. Along k each has
// partial results, which are reduced: to all of them on every chip, or scattered along an axis of
// the result (Megatron's sequence parallelism, Korthikanti et al. 2022).
struct Sharding {
  Loop axis = Loop::kCount;
  Loop scatter = Loop::kCount;

  constexpr Sharding(Loop along = Loop::kCount, Loop scattered = Loop::kCount)
      : axis(along), scatter(scattered) {}
  bool operator==(const Sharding&) const = default;
};
inline constexpr std::array<std::string_view, 8> kShardingNames = {
    "outer", "m", "k", "n", "none", "k-to-outer", "k-to-m", "k-to-n"};
std::string_view Name(Sharding sharding);
Sharding ShardingOf(size_t name);  // index in kShardingNames

using Shardings = std::vector<Sharding>;

// The group of chips that share the kernels.
struct TensorGroup {
  std::vector<NetworkDimension> networks;  // inner first
  AllReduceFormula all_reduce = AllReduceFormula::kPhysical;
  AllToAllFormula all_to_all = AllToAllFormula::kPhysical;
  // Instead of the formula over the innermost network, whose chips are then neighbours in a node.
  // Not owned.
  const KernelTimes* measured = nullptr;
  double samples = 1;  // whose bytes are exchanged at once: time is not linear in bytes
  // Partial results are always reduced to all of them, and a tensor is converted for each consumer
  // apart. Else once for those of a pass that read it alike.
  bool published = false;

  int64_t size() const;
  // Times of a sample do not depend on `samples`.
  bool linear() const;
};
// Of one sample's bytes, over the dimensions one after another, each with its share of them.
RealNs AllReduceTime(const TensorGroup& group, RealBytes bytes);

// One chip's share of a kernel.
struct ShardedKernel {
  LoopSizes size = {1, 1, 1, 1};  // rounded up
  Flop flop;
  RealBytes output_bytes;
  RealBytes weight_bytes;
  RealBytes stored_bytes;
  RealNs reduce_time;      // of its partial results
  RealBytes reduce_bytes;  // of these
};
struct ShardedTensor {
  int from = 0, to = 0;
  RealBytes bytes;       // on one chip, in its producer's layout
  RealNs convert_time;   // into its consumer's
  bool gathers = false;  // every chip then has all of it
};
struct ShardedWorkload {
  std::vector<ShardedKernel> kernels;
  std::vector<ShardedTensor> tensors;
  std::vector<ShardedTensor> next_layer;
};

ShardedKernel ShardKernel(const Kernel& kernel, Sharding sharding, const TensorGroup& group,
                          RealBytes word_bytes);
// Between a producer and a consumer that are divided so; `bytes` of it on a chip.
ShardedTensor ShardTensor(const Workload& workload, const Tensor& tensor, Sharding from,
                          Sharding to, RealBytes bytes, const TensorGroup& group);
// Along which axis chips divide a tensor, by the producer's labels; empty: each has all of it.
struct TensorLayout {
  std::string made, read;
};
TensorLayout LayoutOf(const Workload& workload, const Tensor& tensor, Sharding from, Sharding to);
ShardedWorkload Shard(const Workload& workload, const Shardings& shardings,
                      const TensorGroup& group);

// Axes that the kernel may be divided along: those with labels, of at least the group's size.
std::vector<Sharding> AllowedShardings(const Kernel& kernel, const TensorGroup& group,
                                       bool divide_weights);

// In picoseconds, so that ties are ties; of equal times the fewest bytes.
struct ShardingCost {
  int64_t ps = 0;
  double bytes = 0;
  auto operator<=>(const ShardingCost&) const = default;
};

// What shardings cost: a sum over kernels and tensors.
struct ShardingObjective {
  std::function<ShardingCost(size_t kernel, const ShardedKernel& sharded)> kernel;
  std::function<ShardingCost(const ShardedTensor& tensor)> tensor;
};
// Time of communication, and bytes on a chip.
ShardingObjective Communication();

// Those with the least cost, found by eliminating kernels one after another, which is exact. With
// `divide_weights` no chip holds all of a weight.
Shardings SolveShardings(const Workload& workload, const TensorGroup& group, bool divide_weights,
                         const ShardingObjective& objective = Communication());
ShardingCost CostOf(const Workload& workload, const Shardings& shardings, const TensorGroup& group,
                    const ShardingObjective& objective = Communication());

// Every kernel along the first of its axes whose label is one of `labels`: Megatron's tensor
// parallelism for {"heads", "ffn"}.
Shardings ShardAlong(const Workload& workload, std::span<const std::string_view> labels);

}  // namespace foretrace::dataflow
