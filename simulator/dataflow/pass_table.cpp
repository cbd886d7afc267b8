#include "simulator/dataflow/pass_table.h"

#include <algorithm>
#include <limits>

#include "simulator/dataflow/quantities.h"

namespace foretrace::dataflow {

PassTable::PassTable(const ShardingProblem& problem, const System& system, const Formulas& formulas,
                     const Mapping& mapping, const ShardingProblem::Mask& mask, Direction pass)
    : problem_(problem),
      workload_(problem.workload()),
      system_(system),
      mapping_(mapping),
      mask_(mask),
      terms_(workload_, system, formulas, mapping) {
  for (size_t i = 0; i < workload_.kernels.size(); ++i) {
    if (workload_.kernels[i].pass == pass) all_ |= KernelSet{1} << i;
  }
  AddEdges();
  AddKernels();
}

PassTable::Edge PassTable::EdgeOf(const Tensor& tensor, const std::vector<int>& level) {
  Edge e;
  e.tensor = &tensor;
  e.from = static_cast<size_t>(tensor.from), e.to = static_cast<size_t>(tensor.to);
  e.depth = level[e.to] - level[e.from] + 1;
  for (const Sharding s : problem_.choices()[e.to]) {
    const std::string read = LayoutOf(workload_, tensor, Sharding(), s).read;
    auto& known = layouts_[e.from];
    const auto at = std::find(known.begin(), known.end(), read);
    e.read.push_back(static_cast<uint8_t>(at - known.begin()));
    if (at == known.end()) known.push_back(read);
  }
  return e;
}

void PassTable::AddEdges() {
  const std::vector<int> level = Levels(workload_);
  needs_.assign(workload_.kernels.size(), 0);
  layouts_.resize(workload_.kernels.size());
  into_.resize(workload_.kernels.size());
  out_.resize(workload_.kernels.size());
  for (const Tensor& t : workload_.tensors) {
    if (!Has(all_, static_cast<size_t>(t.from)) || !Has(all_, static_cast<size_t>(t.to))) continue;
    const Edge e = EdgeOf(t, level);
    needs_[e.to] |= KernelSet{1} << e.from;
    into_[e.to].push_back(edges_.size());
    out_[e.from].push_back(edges_.size());
    edges_.push_back(e);
  }
  for (const Tensor& t : workload_.next_layer) {
    if (Has(all_, static_cast<size_t>(t.from)) && Has(all_, static_cast<size_t>(t.to)) &&
        t.to < t.from)
      next_.push_back(EdgeOf(t, level));
  }
}

void PassTable::AddKernels() {
  added_.resize(workload_.kernels.size());
  ForEach(all_, [&](size_t i) {
    for (size_t c = 0; c < problem_.choices()[i].size(); ++c) added_[i].push_back(AddedBy(i, c));
    double least = std::numeric_limits<double>::infinity();
    for (size_t c = 0; c < added_[i].size(); ++c)
      least = mask_[i][c] ? std::min(least, added_[i][c].compute) : least;
    least_compute_.resize(workload_.kernels.size(), 0);
    least_compute_[i] = least;
  });
  AddInputs();
}

void PassTable::AddInputs() {
  for (const Tensor& t : workload_.tensors) {
    // What the other pass makes is read, in the smallest share that it may come in.
    if (Has(all_, static_cast<size_t>(t.from)) || !Has(all_, static_cast<size_t>(t.to))) continue;
    const auto from = static_cast<size_t>(t.from), to = static_cast<size_t>(t.to);
    double bytes = std::numeric_limits<double>::infinity(), tile = bytes;
    for (size_t c = 0; c < problem_.choices()[from].size(); ++c) {
      if (!mask_[from][c]) continue;
      bytes = std::min(bytes, problem_.sharded(from, c).output_bytes.count());
      tile = std::min(
          tile,
          TileBytes(workload_.kernels[from], problem_.sharded(from, c), mapping_.tiles).count());
    }
    for (Added& a : added_[to]) {
      a.memory += terms_.Times(to) * terms_.CrossingNs(bytes) / 2;
      a.sram += 2 * tile;
    }
  }
}

PassTable::Added PassTable::AddedBy(size_t i, size_t choice) const {
  const ShardedKernel& k = problem_.sharded(i, choice);
  const Kernel& kernel = workload_.kernels[i];
  Added a;
  const double times = terms_.Times(i);
  a.compute = times * terms_.SharedNs(i, k);
  a.network = times * terms_.NetworkNs(k.reduce_time.ns());
  a.memory =
      times * (terms_.WeightNs(k) + terms_.StoredNs(k) +
               NsOf(kernel.memory_bytes.count() * mapping_.micro_batch, system_.memory.bandwidth));
  a.result = times * terms_.CrossingNs(k.output_bytes.count()) / 2;
  a.tile = TileBytes(kernel, k, mapping_.tiles).count();
  const double tiles = kernel.tiled == Loop::kCount ? 1 : static_cast<double>(mapping_.tiles);
  a.sram = k.weight_bytes.count() + 2 * k.stored_bytes.count() / tiles;
  a.once = terms_.IterationNs(i, k);
  // Every tensor of its own crosses, until its consumer joins the partition.
  for (const Tensor& t : workload_.tensors) {
    if (static_cast<size_t>(t.from) != i) continue;
    a.memory += a.result;
    a.sram += 2 * a.tile;
  }
  a.network += times * terms_.NetworkNs(ForcedNs(i, choice));
  a.convert.assign(layouts_[i].size(), 0);
  const Sharding made = problem_.choices()[i][choice];
  const auto price = [&](const Edge& e) {
    for (size_t c = 0; c < e.read.size(); ++c) {
      a.convert[e.read[c]] = times * terms_.NetworkNs(ShardTensor(workload_, *e.tensor, made,
                                                                  problem_.choices()[e.to][c],
                                                                  k.output_bytes, problem_.group())
                                                          .convert_time.ns());
    }
  };
  for (const size_t e : out_[i]) price(edges_[e]);
  for (const Edge& e : next_) {
    if (e.from == i) price(e);
  }
  return a;
}

// Of conversions for the other pass: one of them at least, in the cheapest layout for it.
double PassTable::ForcedNs(size_t i, size_t choice) const {
  double forced = 0;
  for (const Tensor& t : workload_.tensors) {
    const auto to = static_cast<size_t>(t.to);
    if (static_cast<size_t>(t.from) != i || Has(all_, to)) continue;
    double least = std::numeric_limits<double>::infinity();
    for (size_t c = 0; c < problem_.choices()[to].size(); ++c) {
      if (!mask_[to][c]) continue;
      const ShardedTensor s =
          ShardTensor(workload_, t, problem_.choices()[i][choice], problem_.choices()[to][c],
                      problem_.sharded(i, choice).output_bytes, problem_.group());
      least = std::min(least, s.convert_time.ns());
    }
    forced = std::max(forced, least);
  }
  return forced;
}

KernelSet PassTable::Frontier(KernelSet set) const {
  KernelSet frontier = 0;
  for (const Edge& e : edges_) {
    if (Has(set, e.from) && !Has(set, e.to)) frontier |= KernelSet{1} << e.from;
  }
  for (const Edge& e : next_) {
    if (Has(set, e.to) && !Has(set, e.from)) frontier |= KernelSet{1} << e.to;
  }
  return frontier;
}

double PassTable::RestCompute(KernelSet set) const {
  double ns = 0;
  ForEach(all_ & ~set, [&](size_t i) { ns += least_compute_[i]; });
  return ns;
}

}  // namespace foretrace::dataflow
