#include "simulator/dataflow/sharding.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "simulator/base/check.h"

namespace foretrace::dataflow {
namespace {

int64_t CeilOf(int64_t size, int64_t parts) { return (size + parts - 1) / parts; }

// What a kernel's result is divided along; empty: every chip has all of it.
std::string OutputLayout(const Kernel& kernel, Dimension sharding) {
  if (sharding == Dimension::kCount || sharding == Dimension::kK) return "";
  return kernel.label_of(sharding);
}

bool HasOutputAxis(const Kernel& kernel, const std::string& label) {
  return label == kernel.label_of(Dimension::kOuter) || label == kernel.label_of(Dimension::kM) ||
         label == kernel.label_of(Dimension::kN);
}

// The layout that a consumer divided along `sharding` reads the tensor in, by its producer's
// labels.
std::string InputLayout(const Kernel& from, const Kernel& to, Dimension sharding,
                        const Tensor& tensor) {
  if (sharding == Dimension::kCount) return "";
  std::string label = to.label_of(sharding);
  if (label == tensor.renamed.second && !tensor.renamed.second.empty()) {
    label = tensor.renamed.first;
  } else if (label == tensor.renamed.first) {
    return "";  // the consumer's axis of that name is not the tensor's
  }
  return HasOutputAxis(from, label) ? label : "";
}

ShardedKernel ShardOne(const Kernel& kernel, Dimension sharding, const TensorGroup& group,
                       double word) {
  ShardedKernel s;
  s.size = kernel.size;
  const int64_t n = group.size();
  if (sharding != Dimension::kCount) {
    int64_t& size = s.size[static_cast<size_t>(sharding)];
    size = CeilOf(size, n);
  }
  const auto of = [&](Dimension d) { return static_cast<double>(s.size[static_cast<size_t>(d)]); };
  const double rows = of(Dimension::kOuter) * of(Dimension::kM);
  const double terms = kernel.kind == KernelKind::kElementwise ? 1 : 2 * of(Dimension::kK);
  s.flop = terms * rows * of(Dimension::kN);
  s.output_bytes = rows * of(Dimension::kN) * word;
  if (kernel.has_weights()) s.weight_bytes = rows * of(Dimension::kK) * word;
  // A chip holds what its share of the kernel reads.
  s.stored_bytes = kernel.stored_bytes;
  if (sharding != Dimension::kCount) {
    const auto share = static_cast<size_t>(sharding);
    s.stored_bytes *= static_cast<double>(s.size[share]) / static_cast<double>(kernel.size[share]);
  }
  const bool partial = sharding == Dimension::kK && kernel.kind != KernelKind::kElementwise;
  if (partial && !kernel.reduced_elsewhere) s.reduce_ns = AllReduceNs(group, s.output_bytes);
  return s;
}

double ConvertNs(const std::string& have, const std::string& want, double bytes,
                 const TensorGroup& group) {
  if (have.empty() || have == want) return 0;  // a chip takes its part of what it has
  if (!want.empty()) {
    return AllToAllNs(group.all_to_all, group.networks, bytes * group.samples) / group.samples;
  }
  // Gathered over the dimensions from the inside out: each multiplies what a chip holds.
  double ns = 0, held = bytes * group.samples;
  for (const NetworkDimension& d : group.networks) {
    held *= static_cast<double>(d.size);
    ns += AllGatherNs(d, held);
  }
  return ns / group.samples;
}

int64_t Picoseconds(double ns) { return std::llround(ns * 1000); }

// A function of a few kernels' shardings: a table, the first kernel's choice running fastest.
struct Factor {
  std::vector<int> kernels;  // ascending
  std::vector<CommunicationCost> table;
};

CommunicationCost Plus(const CommunicationCost& a, const CommunicationCost& b) {
  return {a.ps + b.ps, a.bytes + b.bytes};
}

class Elimination {
 public:
  Elimination(const Workload& workload, const TensorGroup& group, bool divide_weights) {
    const size_t n = workload.kernels.size();
    for (const Kernel& k : workload.kernels) {
      choices_.push_back(AllowedShardings(k, group.size(), divide_weights));
    }
    for (size_t i = 0; i < n; ++i) {
      Factor f{{static_cast<int>(i)}, {}};
      for (const Dimension d : choices_[i]) {
        const ShardedKernel s = ShardOne(workload.kernels[i], d, group, workload.word_bytes);
        f.table.push_back({Picoseconds(s.reduce_ns), s.weight_bytes + s.output_bytes});
      }
      factors_.push_back(std::move(f));
    }
    for (const Tensor& t : workload.tensors) factors_.push_back(OfTensor(workload, group, t));
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
  Factor OfTensor(const Workload& workload, const TensorGroup& group, const Tensor& t) const {
    const auto a = static_cast<size_t>(t.from), b = static_cast<size_t>(t.to);
    const Kernel &from = workload.kernels[a], &to = workload.kernels[b];
    const bool ascending = a < b;
    Factor f{{static_cast<int>(std::min(a, b)), static_cast<int>(std::max(a, b))}, {}};
    f.table.resize(choices_[a].size() * choices_[b].size());
    for (size_t i = 0; i < choices_[a].size(); ++i) {
      const double bytes = ShardOne(from, choices_[a][i], group, workload.word_bytes).output_bytes;
      const std::string have = OutputLayout(from, choices_[a][i]);
      for (size_t j = 0; j < choices_[b].size(); ++j) {
        const std::string want = InputLayout(from, to, choices_[b][j], t);
        const size_t index = ascending ? i + j * choices_[a].size() : j + i * choices_[b].size();
        f.table[index] = {Picoseconds(ConvertNs(have, want, bytes, group)), bytes};
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
    Factor sum{around, std::vector<CommunicationCost>(rows)},
        best{around, std::vector<CommunicationCost>(rows)};
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
        CommunicationCost cost;
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

int64_t TensorGroup::size() const {
  int64_t n = 1;
  for (const NetworkDimension& d : networks) n *= d.size;
  return n;
}

bool TensorGroup::linear() const {
  return measured == nullptr &&
         std::all_of(networks.begin(), networks.end(),
                     [](const NetworkDimension& d) { return d.latency_ns == 0; });
}

double AllReduceNs(const TensorGroup& group, double bytes) {
  double ns = 0;
  bytes *= group.samples;
  for (size_t i = 0; i < group.networks.size(); ++i) {
    const NetworkDimension& d = group.networks[i];
    std::optional<double> measured;
    if (i == 0 && group.measured != nullptr && d.size > 1 && bytes > 0)
      measured = group.measured->AllReduceNs(d.size, bytes);
    ns += measured ? *measured : AllReduceNs(group.all_reduce, d, bytes);
    bytes /= static_cast<double>(d.size);
  }
  return ns / group.samples;
}

ShardedWorkload Shard(const Workload& workload, const Shardings& shardings,
                      const TensorGroup& group) {
  FORETRACE_CHECK(shardings.size() == workload.kernels.size());
  ShardedWorkload out;
  for (size_t i = 0; i < shardings.size(); ++i) {
    out.kernels.push_back(ShardOne(workload.kernels[i], shardings[i], group, workload.word_bytes));
  }
  for (const Tensor& t : workload.tensors) {
    const auto a = static_cast<size_t>(t.from), b = static_cast<size_t>(t.to);
    const Kernel &from = workload.kernels[a], &to = workload.kernels[b];
    const double bytes = out.kernels[a].output_bytes;
    const std::string want = InputLayout(from, to, shardings[b], t);
    const double ns = ConvertNs(OutputLayout(from, shardings[a]), want, bytes, group);
    out.tensors.push_back({t.from, t.to, bytes, ns, want.empty()});
  }
  return out;
}

std::vector<Dimension> AllowedShardings(const Kernel& kernel, int64_t group, bool divide_weights) {
  std::vector<Dimension> out;
  for (size_t d = 0; d < kDimensions; ++d) {
    const auto dimension = static_cast<Dimension>(d);
    if (kernel.label[d].empty() || kernel.size[d] < group) continue;
    // The rows of the input: each chip would hold all of the weight.
    if (divide_weights && kernel.has_weights() && dimension == Dimension::kN) continue;
    out.push_back(dimension);
  }
  if (group == 1) out.clear();
  if (out.empty() || !divide_weights || !kernel.has_weights()) out.push_back(Dimension::kCount);
  return out;
}

Shardings SolveShardings(const Workload& workload, const TensorGroup& group, bool divide_weights) {
  return Elimination(workload, group, divide_weights).Solve();
}

Shardings ShardAlong(const Workload& workload, std::span<const std::string_view> labels) {
  Shardings out;
  for (const Kernel& k : workload.kernels) {
    Dimension chosen = Dimension::kCount;
    for (size_t d = kDimensions; d-- > 0;) {
      const bool named = std::find(labels.begin(), labels.end(), k.label[d]) != labels.end();
      if (named && !k.label[d].empty()) chosen = static_cast<Dimension>(d);
    }
    out.push_back(chosen);
  }
  return out;
}

CommunicationCost CostOf(const Workload& workload, const Shardings& shardings,
                         const TensorGroup& group) {
  const ShardedWorkload s = Shard(workload, shardings, group);
  CommunicationCost cost;
  for (const ShardedKernel& k : s.kernels) {
    cost = Plus(cost, {Picoseconds(k.reduce_ns), k.weight_bytes + k.output_bytes});
  }
  for (const ShardedTensor& t : s.tensors) cost = Plus(cost, {Picoseconds(t.convert_ns), t.bytes});
  return cost;
}

}  // namespace foretrace::dataflow
