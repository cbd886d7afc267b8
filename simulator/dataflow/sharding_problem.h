#pragma once
// All that shardings of a workload's kernels come to, tabulated once for many objectives, and the
// shardings of the least cost: kernels are eliminated one after another, which is exact.

#include <vector>

#include "simulator/dataflow/sharding.h"

namespace foretrace::dataflow {

class ShardingProblem {
 public:
  ShardingProblem(const Workload& workload, const TensorGroup& group);

  // By kernel: AllowedShardings without a condition on weights.
  const std::vector<std::vector<Sharding>>& choices() const { return choices_; }
  const ShardedKernel& sharded(size_t kernel, size_t choice) const {
    return sharded_[kernel][choice];
  }
  const Workload& workload() const { return workload_; }
  const TensorGroup& group() const { return group_; }

  // Which choices a kernel has; empty: all.
  using Mask = std::vector<std::vector<bool>>;
  // Without a weight whole on every chip.
  Mask DividedWeights() const;

  // Indices of choices with the least cost.
  std::vector<size_t> Solve(const ShardingObjective& objective, const Mask& mask = {}) const;
  Shardings ShardingsOf(const std::vector<size_t>& chosen) const;
  ShardingCost CostOf(const std::vector<size_t>& chosen, const ShardingObjective& objective) const;

 private:
  using Choice = std::vector<size_t>;  // by variable: kernels, then whether tensors are converted
  // What a row of a factor's table stands for.
  struct Entry {
    enum class Kind : uint8_t { kFree, kNever, kTensor, kConversion } kind = Kind::kFree;
    ShardedTensor tensor;
  };
  // A function of a few variables, the first one's choice running fastest.
  struct Factor {
    std::vector<int> variables;  // ascending
    std::vector<Entry> entries;  // none: costs of the kernel, or what an elimination leaves
  };
  struct Source {
    size_t factor = 0;
    size_t stride = 0;            // of the variable that is eliminated
    std::vector<size_t> strides;  // of those around it
  };
  struct Step {
    int variable = 0;
    std::vector<int> around;
    size_t rows = 1;
    std::vector<Source> sources;
    size_t result = 0;  // factor
  };

  template <typename Fill>
  void AddFactor(std::vector<int> variables, const Fill& fill);
  void AddConversions();
  void AddShared(const std::vector<const Tensor*>& tensors);
  void AddShared(const std::string& layout, const std::vector<const Tensor*>& tensors);
  void Plan();
  int Cheapest(const std::vector<bool>& gone, const std::vector<std::vector<bool>>& beside) const;
  const Sharding& Of(int kernel, const Choice& c) const;
  ShardedTensor TensorOf(const Tensor& t, const Choice& c) const;
  std::string ReadIn(const Tensor& t, const Choice& c) const;
  std::vector<std::vector<ShardingCost>> Tables(const ShardingObjective& objective,
                                                const Mask& mask) const;

  const Workload& workload_;
  TensorGroup group_;
  std::vector<std::vector<Sharding>> choices_;
  std::vector<std::vector<ShardedKernel>> sharded_;
  std::vector<size_t> counts_;  // by variable
  std::vector<Factor> factors_;
  std::vector<Step> steps_;
};

}  // namespace foretrace::dataflow
