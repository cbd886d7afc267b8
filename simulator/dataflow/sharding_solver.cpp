#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "simulator/dataflow/sharding.h"

namespace foretrace::dataflow {
namespace {

int64_t Picoseconds(double ns) { return std::llround(ns * 1000); }

constexpr int64_t kNever = int64_t{1} << 61;

// A function of a few variables (shardings of kernels, and whether a tensor is converted): a table,
// the first one's choice running fastest.
struct Factor {
  std::vector<int> kernels;  // ascending
  std::vector<ShardingCost> table;
};

ShardingCost Plus(const ShardingCost& a, const ShardingCost& b) {
  return {std::min(a.ps + b.ps, kNever), a.bytes + b.bytes};
}

// What a tensor costs besides its conversion, and that alone.
ShardingCost Unconverted(const ShardingObjective& objective, ShardedTensor t) {
  t.convert_ns = 0;
  return objective.tensor(t);
}
ShardingCost Conversion(const ShardingObjective& objective, ShardedTensor t) {
  if (t.convert_ns == 0) return {};
  t.bytes = 0;
  return objective.tensor(t);
}

class Elimination {
 public:
  Elimination(const Workload& workload, const TensorGroup& group, bool divide_weights,
              const ShardingObjective& objective)
      : workload_(workload), group_(group), objective_(objective) {
    for (const Kernel& k : workload.kernels) {
      choices_.push_back(AllowedShardings(k, group, divide_weights));
      counts_.push_back(choices_.back().size());
    }
    for (size_t i = 0; i < choices_.size(); ++i) {
      AddFactor({static_cast<int>(i)}, [&](const Choice& c) {
        return objective.kernel(i, Sharded(static_cast<int>(i), c));
      });
    }
    for (const Tensor& t : workload.tensors) {
      AddFactor({t.from, t.to},
                [&](const Choice& c) { return Unconverted(objective, TensorOf(t, c)); });
    }
    AddConversions();
  }

  Shardings Solve() {
    const size_t n = counts_.size();
    std::vector<std::pair<int, Factor>> order;  // variable, its best choice by its neighbours'
    std::vector<bool> gone(n, false);
    std::vector<std::set<int>> neighbours = Neighbours();
    for (size_t step = 0; step < n; ++step) {
      const int kernel = Cheapest(gone, neighbours);
      const std::set<int> around = neighbours[static_cast<size_t>(kernel)];
      order.emplace_back(kernel, Eliminate(kernel, {around.begin(), around.end()}));
      gone[static_cast<size_t>(kernel)] = true;
      for (const int k : around) {
        std::set<int>& of = neighbours[static_cast<size_t>(k)];
        of.insert(around.begin(), around.end());
        of.erase(k);
        of.erase(kernel);
      }
    }
    std::vector<size_t> chosen(n, 0);
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
      const Factor& best = it->second;
      size_t index = 0, stride = 1;
      for (const int k : best.kernels) {
        index += chosen[static_cast<size_t>(k)] * stride;
        stride *= counts_[static_cast<size_t>(k)];
      }
      chosen[static_cast<size_t>(it->first)] = static_cast<size_t>(best.table[index].ps);
    }
    Shardings out;
    for (size_t i = 0; i < choices_.size(); ++i) out.push_back(choices_[i][chosen[i]]);
    return out;
  }

 private:
  using Choice = std::vector<size_t>;  // by variable

  template <typename Cost>
  void AddFactor(std::vector<int> variables, const Cost& cost) {
    std::sort(variables.begin(), variables.end());
    variables.erase(std::unique(variables.begin(), variables.end()), variables.end());
    size_t rows = 1;
    for (const int v : variables) rows *= counts_[static_cast<size_t>(v)];
    Factor f{std::move(variables), {}};
    Choice choice(counts_.size(), 0);
    for (size_t row = 0; row < rows; ++row) {
      Choose(f.kernels, row, choice);
      f.table.push_back(cost(choice));
    }
    factors_.push_back(std::move(f));
  }

  void Choose(const std::vector<int>& variables, size_t row, Choice& choice) const {
    for (const int v : variables) {
      const size_t count = counts_[static_cast<size_t>(v)];
      choice[static_cast<size_t>(v)] = row % count;
      row /= count;
    }
  }

  Sharding Of(int kernel, const Choice& c) const {
    return choices_[static_cast<size_t>(kernel)][c[static_cast<size_t>(kernel)]];
  }
  ShardedKernel Sharded(int kernel, const Choice& c) const {
    return ShardKernel(workload_.kernels[static_cast<size_t>(kernel)], Of(kernel, c), group_,
                       workload_.word_bytes);
  }
  ShardedTensor TensorOf(const Tensor& t, const Choice& c) const {
    return ShardTensor(workload_, t, Of(t.from, c), Of(t.to, c), Sharded(t.from, c).output_bytes,
                       group_);
  }

  // Each tensor's, or one for those of a producer that a pass reads in the same layout.
  void AddConversions() {
    const auto apart = [&](const Tensor& t) {
      AddFactor({t.from, t.to},
                [&](const Choice& c) { return Conversion(objective_, TensorOf(t, c)); });
    };
    std::map<std::pair<int, Direction>, std::vector<const Tensor*>> readers;
    for (const Tensor& t : workload_.tensors)
      readers[{t.from, workload_.kernels[static_cast<size_t>(t.to)].pass}].push_back(&t);
    for (const auto& [producer, tensors] : readers) {
      if (group_.published || tensors.size() == 1) {
        for (const Tensor* t : tensors) apart(*t);
      } else {
        AddShared(tensors);
      }
    }
    if (group_.published) return;
    for (const Tensor& t : workload_.next_layer) apart(t);
  }

  // Of one producer. For each layout that several may read a variable says whether the tensor is
  // brought into it.
  void AddShared(const std::vector<const Tensor*>& tensors) {
    std::map<std::string, std::set<const Tensor*>> layouts;  // read by
    for (const Tensor* t : tensors) {
      for (const Sharding to : choices_[static_cast<size_t>(t->to)])
        layouts[LayoutOf(workload_, *t, Sharding(), to).read].insert(t);
    }
    for (const Tensor* t : tensors) {
      AddFactor({t->from, t->to}, [&](const Choice& c) {
        const bool alone = layouts.at(ReadIn(*t, c)).size() == 1;
        return alone ? Conversion(objective_, TensorOf(*t, c)) : ShardingCost{};
      });
    }
    for (const auto& [layout, readers] : layouts) {
      if (readers.size() > 1) AddShared(layout, {readers.begin(), readers.end()});
    }
  }

  void AddShared(const std::string& layout, const std::vector<const Tensor*>& tensors) {
    const Tensor& any = *tensors.front();
    const std::vector<Sharding>& to = choices_[static_cast<size_t>(any.to)];
    const auto reads = [&](Sharding s) {
      return LayoutOf(workload_, any, Sharding(), s).read == layout;
    };
    const auto reader = std::find_if(to.begin(), to.end(), reads);
    const size_t converted = counts_.size();
    counts_.push_back(2);
    AddFactor({any.from, static_cast<int>(converted)}, [&](Choice c) {
      if (c[converted] == 0) return ShardingCost{};
      c[static_cast<size_t>(any.to)] = static_cast<size_t>(reader - to.begin());
      return Conversion(objective_, TensorOf(any, c));
    });
    for (const Tensor* t : tensors) {
      AddFactor({t->from, t->to, static_cast<int>(converted)}, [&](const Choice& c) {
        const bool lacks =
            c[converted] == 0 && ReadIn(*t, c) == layout && TensorOf(*t, c).convert_ns > 0;
        return ShardingCost{lacks ? kNever : 0, 0};
      });
    }
  }

  std::string ReadIn(const Tensor& t, const Choice& c) const {
    return LayoutOf(workload_, t, Sharding(), Of(t.to, c)).read;
  }

  // By variable: those that share a factor with it.
  std::vector<std::set<int>> Neighbours() const {
    std::vector<std::set<int>> all(counts_.size());
    for (const Factor& f : factors_) {
      for (const int v : f.kernels)
        all[static_cast<size_t>(v)].insert(f.kernels.begin(), f.kernels.end());
    }
    for (size_t v = 0; v < all.size(); ++v) all[v].erase(static_cast<int>(v));
    return all;
  }

  int Cheapest(const std::vector<bool>& gone, const std::vector<std::set<int>>& neighbours) const {
    int best = -1;
    double least = 0;
    for (size_t i = 0; i < counts_.size(); ++i) {
      if (gone[i]) continue;
      double size = 1;
      for (const int k : neighbours[i])
        size *= static_cast<double>(counts_[static_cast<size_t>(k)]);
      if (best < 0 || size < least) best = static_cast<int>(i), least = size;
    }
    return best;
  }

  // Replaces the factors of `kernel` by one of its neighbours; returns the best choice for each of
  // theirs, as the index of the choice.
  Factor Eliminate(int kernel, const std::vector<int>& around) {
    std::vector<Factor> mine;
    std::erase_if(factors_, [&](const Factor& f) {
      const bool has = std::find(f.kernels.begin(), f.kernels.end(), kernel) != f.kernels.end();
      if (has) mine.push_back(f);
      return has;
    });
    size_t rows = 1;
    for (const int k : around) rows *= counts_[static_cast<size_t>(k)];
    Factor sum{around, std::vector<ShardingCost>(rows)},
        best{around, std::vector<ShardingCost>(rows)};
    Choice choice(counts_.size(), 0);
    std::vector<size_t> first(mine.size()), stride;  // in each table, where its choice is the first
    for (const Factor& f : mine) {
      choice[static_cast<size_t>(kernel)] = 1;
      stride.push_back(IndexOf(f, choice));
    }
    choice[static_cast<size_t>(kernel)] = 0;
    for (size_t row = 0; row < rows; ++row) {
      Choose(around, row, choice);
      for (size_t f = 0; f < mine.size(); ++f) first[f] = IndexOf(mine[f], choice);
      for (size_t c = 0; c < counts_[static_cast<size_t>(kernel)]; ++c) {
        ShardingCost cost;
        for (size_t f = 0; f < mine.size(); ++f)
          cost = Plus(cost, mine[f].table[first[f] + c * stride[f]]);
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
      stride *= counts_[static_cast<size_t>(k)];
    }
    return index;
  }

  const Workload& workload_;
  const TensorGroup& group_;
  const ShardingObjective& objective_;
  std::vector<std::vector<Sharding>> choices_;  // by kernel
  std::vector<size_t> counts_;                  // by variable; kernels first
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
  for (const ShardedTensor& t : s.tensors) {
    cost = Plus(cost, Unconverted(objective, t));
    cost = Plus(cost, Conversion(objective, t));
  }
  for (const ShardedTensor& t : s.next_layer) cost = Plus(cost, Conversion(objective, t));
  return cost;
}

}  // namespace foretrace::dataflow
