#include <algorithm>
#include <cmath>
#include <set>

#include "simulator/dataflow/sharding.h"

namespace foretrace::dataflow {
namespace {

int64_t Picoseconds(double ns) { return std::llround(ns * 1000); }

// A function of a few kernels' shardings: a table, the first kernel's choice running fastest.
struct Factor {
  std::vector<int> kernels;  // ascending
  std::vector<ShardingCost> table;
};

ShardingCost Plus(const ShardingCost& a, const ShardingCost& b) {
  return {a.ps + b.ps, a.bytes + b.bytes};
}

class Elimination {
 public:
  Elimination(const Workload& workload, const TensorGroup& group, bool divide_weights,
              const ShardingObjective& objective) {
    const size_t n = workload.kernels.size();
    for (const Kernel& k : workload.kernels) {
      choices_.push_back(AllowedShardings(k, group.size(), divide_weights));
    }
    for (size_t i = 0; i < n; ++i) {
      Factor f{{static_cast<int>(i)}, {}};
      for (const Dimension d : choices_[i]) {
        const ShardedKernel s = ShardKernel(workload.kernels[i], d, group, workload.word_bytes);
        f.table.push_back(objective.kernel(i, s));
      }
      factors_.push_back(std::move(f));
    }
    for (const Tensor& t : workload.tensors)
      factors_.push_back(OfTensor(workload, group, t, objective));
  }

  Shardings Solve() {
    const size_t n = choices_.size();
    std::vector<std::pair<int, Factor>> order;  // kernel, its best choice by its neighbours'
    std::vector<bool> gone(n, false);
    for (size_t step = 0; step < n; ++step) {
      const int kernel = Cheapest(gone);
      order.emplace_back(kernel, Eliminate(kernel));
      gone[static_cast<size_t>(kernel)] = true;
    }
    std::vector<size_t> chosen(n, 0);
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
      const Factor& best = it->second;
      size_t index = 0, stride = 1;
      for (const int k : best.kernels) {
        index += chosen[static_cast<size_t>(k)] * stride;
        stride *= choices_[static_cast<size_t>(k)].size();
      }
      chosen[static_cast<size_t>(it->first)] = static_cast<size_t>(best.table[index].ps);
    }
    Shardings out;
    for (size_t i = 0; i < n; ++i) out.push_back(choices_[i][chosen[i]]);
    return out;
  }

 private:
  Factor OfTensor(const Workload& workload, const TensorGroup& group, const Tensor& t,
                  const ShardingObjective& objective) const {
    const auto a = static_cast<size_t>(t.from), b = static_cast<size_t>(t.to);
    const bool ascending = a < b;
    Factor f{{static_cast<int>(std::min(a, b)), static_cast<int>(std::max(a, b))}, {}};
    f.table.resize(choices_[a].size() * choices_[b].size());
    for (size_t i = 0; i < choices_[a].size(); ++i) {
      const double bytes =
          ShardKernel(workload.kernels[a], choices_[a][i], group, workload.word_bytes).output_bytes;
      for (size_t j = 0; j < choices_[b].size(); ++j) {
        const size_t index = ascending ? i + j * choices_[a].size() : j + i * choices_[b].size();
        f.table[index] = objective.tensor(
            ShardTensor(workload, t, choices_[a][i], choices_[b][j], bytes, group));
      }
    }
    return f;
  }

  std::vector<int> Neighbours(int kernel) const {
    std::set<int> all;
    for (const Factor& f : factors_) {
      if (std::find(f.kernels.begin(), f.kernels.end(), kernel) == f.kernels.end()) continue;
      all.insert(f.kernels.begin(), f.kernels.end());
    }
    all.erase(kernel);
    return {all.begin(), all.end()};
  }

  int Cheapest(const std::vector<bool>& gone) const {
    int best = -1;
    double least = 0;
    for (size_t i = 0; i < choices_.size(); ++i) {
      if (gone[i]) continue;
      double size = 1;
      for (const int k : Neighbours(static_cast<int>(i)))
        size *= static_cast<double>(choices_[static_cast<size_t>(k)].size());
      if (best < 0 || size < least) best = static_cast<int>(i), least = size;
    }
    return best;
  }

  // Replaces the factors of `kernel` by one of its neighbours; returns the best choice for each of
  // theirs, as the index of the choice.
  Factor Eliminate(int kernel) {
    const std::vector<int> around = Neighbours(kernel);
    std::vector<Factor> mine;
    std::erase_if(factors_, [&](const Factor& f) {
      const bool has = std::find(f.kernels.begin(), f.kernels.end(), kernel) != f.kernels.end();
      if (has) mine.push_back(f);
      return has;
    });
    size_t rows = 1;
    for (const int k : around) rows *= choices_[static_cast<size_t>(k)].size();
    Factor sum{around, std::vector<ShardingCost>(rows)},
        best{around, std::vector<ShardingCost>(rows)};
    std::vector<size_t> choice(choices_.size(), 0);
    for (size_t row = 0; row < rows; ++row) {
      size_t rest = row;
      for (const int k : around) {
        const size_t count = choices_[static_cast<size_t>(k)].size();
        choice[static_cast<size_t>(k)] = rest % count;
        rest /= count;
      }
      for (size_t c = 0; c < choices_[static_cast<size_t>(kernel)].size(); ++c) {
        choice[static_cast<size_t>(kernel)] = c;
        ShardingCost cost;
        for (const Factor& f : mine) cost = Plus(cost, f.table[IndexOf(f, choice)]);
        if (c == 0 || cost < sum.table[row]) {
          sum.table[row] = cost;
          best.table[row] = {static_cast<int64_t>(c), 0};
        }
      }
    }
    factors_.push_back(std::move(sum));
    return best;
  }

  size_t IndexOf(const Factor& f, const std::vector<size_t>& choice) const {
    size_t index = 0, stride = 1;
    for (const int k : f.kernels) {
      index += choice[static_cast<size_t>(k)] * stride;
      stride *= choices_[static_cast<size_t>(k)].size();
    }
    return index;
  }

  std::vector<std::vector<Dimension>> choices_;
  std::vector<Factor> factors_;
};

}  // namespace

ShardingObjective Communication() {
  return {[](size_t, const ShardedKernel& k) {
            return ShardingCost{Picoseconds(k.reduce_ns), k.weight_bytes + k.output_bytes};
          },
          [](const ShardedTensor& t) {
            return ShardingCost{Picoseconds(t.convert_ns), t.bytes};
          }};
}

Shardings SolveShardings(const Workload& workload, const TensorGroup& group, bool divide_weights,
                         const ShardingObjective& objective) {
  return Elimination(workload, group, divide_weights, objective).Solve();
}

ShardingCost CostOf(const Workload& workload, const Shardings& shardings, const TensorGroup& group,
                    const ShardingObjective& objective) {
  const ShardedWorkload s = Shard(workload, shardings, group);
  ShardingCost cost;
  for (size_t i = 0; i < s.kernels.size(); ++i)
    cost = Plus(cost, objective.kernel(i, s.kernels[i]));
  for (const ShardedTensor& t : s.tensors) cost = Plus(cost, objective.tensor(t));
  return cost;
}

}  // namespace foretrace::dataflow
