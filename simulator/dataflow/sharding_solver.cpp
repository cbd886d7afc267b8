#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "simulator/dataflow/quantities.h"
#include "simulator/dataflow/sharding_problem.h"

namespace foretrace::dataflow {
namespace {

constexpr int64_t kNever = int64_t{1} << 61;

ShardingCost Plus(const ShardingCost& a, const ShardingCost& b) {
  return {std::min(a.ps + b.ps, kNever), a.bytes + b.bytes};
}

// What a tensor costs besides its conversion, and that alone.
ShardingCost Unconverted(const ShardingObjective& objective, ShardedTensor t) {
  t.convert_time = RealNs();
  return objective.tensor(t);
}
ShardingCost Conversion(const ShardingObjective& objective, ShardedTensor t) {
  if (t.convert_time == RealNs()) return {};
  t.bytes = RealBytes();
  return objective.tensor(t);
}

}  // namespace

ShardingProblem::ShardingProblem(const Workload& workload, const TensorGroup& group)
    : workload_(workload), group_(group) {
  for (const Kernel& k : workload.kernels) {
    choices_.push_back(AllowedShardings(k, group_, false));
    counts_.push_back(choices_.back().size());
    sharded_.emplace_back();
    for (const Sharding s : choices_.back())
      sharded_.back().push_back(ShardKernel(k, s, group_, workload.word_bytes));
  }
  for (size_t i = 0; i < choices_.size(); ++i) factors_.push_back({{static_cast<int>(i)}, {}});
  for (const Tensor& t : workload.tensors) {
    AddFactor({t.from, t.to}, [&](const Choice& c) {
      return Entry{Entry::Kind::kTensor, TensorOf(t, c)};
    });
  }
  AddConversions();
  Plan();
}

template <typename Fill>
void ShardingProblem::AddFactor(std::vector<int> variables, const Fill& fill) {
  std::sort(variables.begin(), variables.end());
  variables.erase(std::unique(variables.begin(), variables.end()), variables.end());
  Factor f{std::move(variables), {}};
  size_t rows = 1;
  for (const int v : f.variables) rows *= counts_[static_cast<size_t>(v)];
  Choice choice;
  choice.assign(counts_.size(), 0);  // GCC 12 takes the constructor's memory for no heap's at -O2
  bool matters = false;
  for (size_t row = 0; row < rows; ++row) {
    size_t rest = row;
    for (const int v : f.variables) {
      choice[static_cast<size_t>(v)] = rest % counts_[static_cast<size_t>(v)];
      rest /= counts_[static_cast<size_t>(v)];
    }
    f.entries.push_back(fill(choice));
    matters = matters || f.entries.back().kind != Entry::Kind::kFree;
  }
  if (matters) factors_.push_back(std::move(f));
}

const Sharding& ShardingProblem::Of(int kernel, const Choice& c) const {
  return choices_[static_cast<size_t>(kernel)][c[static_cast<size_t>(kernel)]];
}

ShardedTensor ShardingProblem::TensorOf(const Tensor& t, const Choice& c) const {
  const auto from = static_cast<size_t>(t.from);
  return ShardTensor(workload_, t, Of(t.from, c), Of(t.to, c), sharded_[from][c[from]].output_bytes,
                     group_);
}

std::string ShardingProblem::ReadIn(const Tensor& t, const Choice& c) const {
  return LayoutOf(workload_, t, Sharding(), Of(t.to, c)).read;
}

// Each tensor's, or one for those of a producer that a pass reads in the same layout.
void ShardingProblem::AddConversions() {
  const auto apart = [&](const Tensor& t) {
    AddFactor({t.from, t.to}, [&](const Choice& c) {
      const ShardedTensor s = TensorOf(t, c);
      return s.convert_time > RealNs() ? Entry{Entry::Kind::kConversion, s} : Entry{};
    });
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
void ShardingProblem::AddShared(const std::vector<const Tensor*>& tensors) {
  std::map<std::string, std::set<const Tensor*>> layouts;  // read by
  for (const Tensor* t : tensors) {
    for (const Sharding to : choices_[static_cast<size_t>(t->to)])
      layouts[LayoutOf(workload_, *t, Sharding(), to).read].insert(t);
  }
  for (const Tensor* t : tensors) {
    AddFactor({t->from, t->to}, [&](const Choice& c) {
      const ShardedTensor s = TensorOf(*t, c);
      const bool alone = layouts.at(ReadIn(*t, c)).size() == 1;
      return alone && s.convert_time > RealNs() ? Entry{Entry::Kind::kConversion, s} : Entry{};
    });
  }
  for (const auto& [layout, readers] : layouts) {
    if (readers.size() > 1) AddShared(layout, {readers.begin(), readers.end()});
  }
}

void ShardingProblem::AddShared(const std::string& layout,
                                const std::vector<const Tensor*>& tensors) {
  const Tensor& any = *tensors.front();
  const std::vector<Sharding>& to = choices_[static_cast<size_t>(any.to)];
  const auto reads = [&](Sharding s) {
    return LayoutOf(workload_, any, Sharding(), s).read == layout;
  };
  const auto reader = std::find_if(to.begin(), to.end(), reads);
  const size_t converted = counts_.size();
  counts_.push_back(2);
  AddFactor({any.from, static_cast<int>(converted)}, [&](const Choice& c) {
    if (c[converted] == 0) return Entry{};
    const auto from = static_cast<size_t>(any.from);
    const ShardedTensor s = ShardTensor(workload_, any, Of(any.from, c), *reader,
                                        sharded_[from][c[from]].output_bytes, group_);
    return s.convert_time > RealNs() ? Entry{Entry::Kind::kConversion, s} : Entry{};
  });
  for (const Tensor* t : tensors) {
    AddFactor({t->from, t->to, static_cast<int>(converted)}, [&](const Choice& c) {
      const bool lacks =
          c[converted] == 0 && ReadIn(*t, c) == layout && TensorOf(*t, c).convert_time > RealNs();
      return Entry{lacks ? Entry::Kind::kNever : Entry::Kind::kFree, {}};
    });
  }
}

int ShardingProblem::Cheapest(const std::vector<bool>& gone,
                              const std::vector<std::vector<bool>>& beside) const {
  int best = -1;
  double least = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    if (gone[i]) continue;
    double size = 1;
    for (size_t k = 0; k < counts_.size(); ++k)
      size *= beside[i][k] ? static_cast<double>(counts_[k]) : 1;
    if (best < 0 || size < least) best = static_cast<int>(i), least = size;
  }
  return best;
}

// The order of elimination, and where in which tables each step looks.
void ShardingProblem::Plan() {
  const size_t n = counts_.size();
  std::vector<std::vector<bool>> beside(n, std::vector<bool>(n, false));
  for (const Factor& f : factors_) {
    for (const int a : f.variables) {
      for (const int b : f.variables)
        beside[static_cast<size_t>(a)][static_cast<size_t>(b)] = a != b;
    }
  }
  std::vector<bool> gone(n, false), used(factors_.size(), false);
  for (size_t done = 0; done < n; ++done) {
    Step step;
    step.variable = Cheapest(gone, beside);
    const auto v = static_cast<size_t>(step.variable);
    for (size_t k = 0; k < n; ++k) {
      if (!beside[v][k]) continue;
      step.around.push_back(static_cast<int>(k));
      step.rows *= counts_[k];
    }
    for (size_t f = 0; f < factors_.size(); ++f) {
      const std::vector<int>& of = factors_[f].variables;
      if (used[f] || std::find(of.begin(), of.end(), step.variable) == of.end()) continue;
      used[f] = true;
      Source source{f, 0, std::vector<size_t>(step.around.size(), 0)};
      size_t stride = 1;
      for (const int k : of) {
        if (k == step.variable) {
          source.stride = stride;
        } else {
          const auto at = std::find(step.around.begin(), step.around.end(), k);
          source.strides[static_cast<size_t>(at - step.around.begin())] = stride;
        }
        stride *= counts_[static_cast<size_t>(k)];
      }
      step.sources.push_back(std::move(source));
    }
    gone[v] = true;
    for (const int a : step.around) {
      std::vector<bool>& of = beside[static_cast<size_t>(a)];
      for (const int b : step.around) of[static_cast<size_t>(b)] = a != b;
      of[v] = false;
    }
    step.result = factors_.size();
    factors_.push_back({step.around, {}});
    used.push_back(false);
    steps_.push_back(std::move(step));
  }
}

ShardingProblem::Mask ShardingProblem::DividedWeights() const {
  Mask mask;
  for (size_t i = 0; i < choices_.size(); ++i) {
    const std::vector<Sharding> allowed = AllowedShardings(workload_.kernels[i], group_, true);
    mask.emplace_back();
    for (const Sharding s : choices_[i])
      mask.back().push_back(std::find(allowed.begin(), allowed.end(), s) != allowed.end());
  }
  return mask;
}

std::vector<std::vector<ShardingCost>> ShardingProblem::Tables(const ShardingObjective& objective,
                                                               const Mask& mask) const {
  std::vector<std::vector<ShardingCost>> tables(factors_.size());
  for (size_t i = 0; i < choices_.size(); ++i) {
    for (size_t c = 0; c < choices_[i].size(); ++c) {
      const bool allowed = mask.empty() || mask[i][c];
      tables[i].push_back(allowed ? objective.kernel(i, sharded_[i][c]) : ShardingCost{kNever, 0});
    }
  }
  for (size_t f = choices_.size(); f < factors_.size(); ++f) {
    tables[f].reserve(factors_[f].entries.size());
    for (const Entry& e : factors_[f].entries) {
      switch (e.kind) {
        case Entry::Kind::kFree:
          tables[f].emplace_back();
          break;
        case Entry::Kind::kNever:
          tables[f].push_back({kNever, 0});
          break;
        case Entry::Kind::kTensor:
          tables[f].push_back(Unconverted(objective, e.tensor));
          break;
        case Entry::Kind::kConversion:
          tables[f].push_back(Conversion(objective, e.tensor));
          break;
      }
    }
  }
  return tables;
}

std::vector<size_t> ShardingProblem::Solve(const ShardingObjective& objective,
                                           const Mask& mask) const {
  std::vector<std::vector<ShardingCost>> tables = Tables(objective, mask);
  std::vector<std::vector<uint16_t>> best(steps_.size());
  for (size_t s = 0; s < steps_.size(); ++s) {
    const Step& step = steps_[s];
    std::vector<ShardingCost>& sum = tables[step.result];
    sum.resize(step.rows);
    best[s].resize(step.rows);
    const size_t choices = counts_[static_cast<size_t>(step.variable)];
    std::vector<size_t> digit(step.around.size(), 0), base(step.sources.size(), 0);
    std::vector<const ShardingCost*> table;
    for (const Source& source : step.sources) table.push_back(tables[source.factor].data());
    for (size_t row = 0; row < step.rows; ++row) {
      for (size_t c = 0; c < choices; ++c) {
        ShardingCost cost;
        for (size_t f = 0; f < table.size(); ++f)
          cost = Plus(cost, table[f][base[f] + c * step.sources[f].stride]);
        if (c > 0 && !(cost < sum[row])) continue;
        sum[row] = cost;
        best[s][row] = static_cast<uint16_t>(c);
      }
      for (size_t d = 0; d < digit.size(); ++d) {  // the next row
        const size_t count = counts_[static_cast<size_t>(step.around[d])];
        const bool carries = ++digit[d] == count;
        for (size_t f = 0; f < base.size(); ++f) {
          const size_t stride = step.sources[f].strides[d];
          base[f] += carries ? stride - count * stride : stride;
        }
        if (!carries) break;
        digit[d] = 0;
      }
    }
  }
  std::vector<size_t> chosen(counts_.size(), 0);
  for (size_t s = steps_.size(); s-- > 0;) {
    size_t row = 0, stride = 1;
    for (const int k : steps_[s].around) {
      row += chosen[static_cast<size_t>(k)] * stride;
      stride *= counts_[static_cast<size_t>(k)];
    }
    chosen[static_cast<size_t>(steps_[s].variable)] = best[s][row];
  }
  chosen.resize(choices_.size());
  return chosen;
}

Shardings ShardingProblem::ShardingsOf(const std::vector<size_t>& chosen) const {
  Shardings out;
  for (size_t i = 0; i < choices_.size(); ++i) out.push_back(choices_[i][chosen[i]]);
  return out;
}

ShardingCost ShardingProblem::CostOf(const std::vector<size_t>& chosen,
                                     const ShardingObjective& objective) const {
  return dataflow::CostOf(workload_, ShardingsOf(chosen), group_, objective);
}

ShardingObjective Communication() {
  return {[](size_t, const ShardedKernel& k) {
            return ShardingCost{Picoseconds(k.reduce_time.ns()),
                                k.weight_bytes.count() + k.output_bytes.count()};
          },
          [](const ShardedTensor& t) {
            return ShardingCost{Picoseconds(t.convert_time.ns()), t.bytes.count()};
          }};
}

Shardings SolveShardings(const Workload& workload, const TensorGroup& group, bool divide_weights,
                         const ShardingObjective& objective) {
  const ShardingProblem problem(workload, group);
  return problem.ShardingsOf(problem.Solve(
      objective, divide_weights ? problem.DividedWeights() : ShardingProblem::Mask{}));
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
