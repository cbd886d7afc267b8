#include "simulator/dataflow/partition_program.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "simulator/base/status_macros.h"
#include "simulator/optimise/milp.h"

namespace foretrace::dataflow {
namespace {

using Terms = std::vector<std::pair<int, double>>;

// Of one pass: y(k, p), whether kernel k is done by the end of partition p, which rises with p and
// of a tensor's producer first; z(t, p), whether a tensor stays within a partition; T(p), the time
// of a partition. Kernel k is in p where y(k, p) - y(k, p-1) is one.
class Program {
 public:
  Program(const Workload& workload, const PartitionCosts& costs, const PartitionLimits& limits,
          KernelSet pass, int partitions, double unit_ns)
      : workload_(workload),
        costs_(costs),
        limits_(limits),
        partitions_(partitions),
        unit_ns_(unit_ns) {
    index_.assign(costs.size(), -1);
    for (size_t i = 0; i < costs.size(); ++i) {
      if (!Has(pass, static_cast<int64_t>(i))) continue;
      index_[i] = static_cast<int>(kernels_.size());
      kernels_.push_back(i);
    }
    for (size_t t = 0; t < workload.tensors.size(); ++t) {
      if (In(workload.tensors[t].from) && In(workload.tensors[t].to)) inside_.push_back(t);
    }
    AddColumns();
    AddOrder();
    AddTensors();
    for (int p = 0; p < partitions_; ++p) AddPartition(p);
    AddCrossings();
  }

  MilpProblem& problem() { return problem_; }

  // By kernel of the pass, from the partitions of a solution.
  void Start(const std::vector<int>& partition_of) {
    std::vector<double>& start = problem_.start;
    start.assign(problem_.columns.size(), 0);
    for (size_t k = 0; k < kernels_.size(); ++k) {
      for (int p = partition_of[k]; p < partitions_; ++p) start[Y(k, p)] = 1;
    }
    for (size_t t = 0; t < inside_.size(); ++t) {
      const Tensor& tensor = workload_.tensors[inside_[t]];
      const int from = partition_of[Index(tensor.from)], to = partition_of[Index(tensor.to)];
      if (from == to) start[Z(t, from)] = 1;
    }
    for (int p = 0; p < partitions_; ++p) {
      double longest = 0;
      for (const Terms& term : times_[static_cast<size_t>(p)]) {
        double ns = 0;
        for (const auto& [column, ns_of] : term) ns += ns_of * start[static_cast<size_t>(column)];
        longest = std::max(longest, ns);
      }
      start[T(p)] = longest;
    }
  }
  std::vector<int> PartitionOf(const std::vector<double>& values) const {
    std::vector<int> out;
    for (size_t k = 0; k < kernels_.size(); ++k) {
      int p = 0;
      while (p + 1 < partitions_ && values[Y(k, p)] < 0.5) ++p;
      out.push_back(p);
    }
    return out;
  }
  const std::vector<size_t>& kernels() const { return kernels_; }

 private:
  bool In(int kernel) const { return index_[static_cast<size_t>(kernel)] >= 0; }
  size_t Index(int kernel) const {
    return static_cast<size_t>(index_[static_cast<size_t>(kernel)]);
  }
  size_t Columns() const { return static_cast<size_t>(partitions_); }
  size_t Y(size_t k, int p) const { return k * Columns() + static_cast<size_t>(p); }
  size_t Z(size_t t, int p) const {
    return (kernels_.size() + t) * Columns() + static_cast<size_t>(p);
  }
  size_t T(int p) const {
    return (kernels_.size() + inside_.size()) * Columns() + static_cast<size_t>(p);
  }

  void AddColumns() {
    problem_.columns.resize(T(partitions_ - 1) + 1);
    for (size_t k = 0; k < kernels_.size(); ++k) {
      for (int p = 0; p < partitions_; ++p) {
        const bool last = p + 1 == partitions_;
        problem_.columns[Y(k, p)] = {last ? 1. : 0., 1, 0, true};
      }
    }
    for (size_t t = 0; t < inside_.size(); ++t) {
      for (int p = 0; p < partitions_; ++p) problem_.columns[Z(t, p)] = {0, 1, 0, false};
    }
    for (int p = 0; p < partitions_; ++p) problem_.columns[T(p)] = {0, kNoBound, 1, false};
  }
  void Row(Terms terms, double lower, double upper) {
    // No column twice.
    std::sort(terms.begin(), terms.end());
    Terms merged;
    for (const auto& [column, value] : terms) {
      if (!merged.empty() && merged.back().first == column) {
        merged.back().second += value;
      } else {
        merged.emplace_back(column, value);
      }
    }
    std::erase_if(merged, [](const auto& term) { return term.second == 0; });
    if (!merged.empty()) problem_.rows.push_back({std::move(merged), lower, upper});
  }
  // value * (kernel is in p).
  void AddIn(size_t k, int p, double value, Terms& terms) const {
    terms.emplace_back(static_cast<int>(Y(k, p)), value);
    if (p > 0) terms.emplace_back(static_cast<int>(Y(k, p - 1)), -value);
  }

  void AddOrder() {
    for (size_t k = 0; k < kernels_.size(); ++k) {
      for (int p = 1; p < partitions_; ++p)
        Row({{static_cast<int>(Y(k, p)), 1}, {static_cast<int>(Y(k, p - 1)), -1}}, 0, kNoBound);
    }
    for (const size_t t : inside_) {
      const size_t from = Index(workload_.tensors[t].from), to = Index(workload_.tensors[t].to);
      for (int p = 0; p < partitions_; ++p)
        Row({{static_cast<int>(Y(from, p)), 1}, {static_cast<int>(Y(to, p)), -1}}, 0, kNoBound);
    }
  }

  void AddTensors() {
    for (size_t t = 0; t < inside_.size(); ++t) {
      const Tensor& tensor = workload_.tensors[inside_[t]];
      const size_t from = Index(tensor.from), to = Index(tensor.to);
      for (int p = 0; p < partitions_; ++p) {
        const auto z = static_cast<int>(Z(t, p));
        Terms producer = {{z, -1}}, consumer = {{z, -1}}, both = {{z, 1}};
        AddIn(from, p, 1, producer);
        AddIn(to, p, 1, consumer);
        AddIn(from, p, -1, both);
        AddIn(to, p, -1, both);
        Row(std::move(producer), 0, kNoBound);
        Row(std::move(consumer), 0, kNoBound);
        // Only where staying on chip takes more room than passing by.
        if (costs_.TilesUnderWay(inside_[t]) > 4) Row(std::move(both), -1, kNoBound);
      }
    }
  }

  // Partitions of connected kernels have tensors between them: of each connected part of the graph
  // one less than it has partitions, since they span a tree. The relaxation, which spreads kernels
  // evenly, would have none.
  void AddCrossings() {
    const int crossing = LeastPartitions() - ConnectedParts();
    if (crossing <= 0) return;
    Terms within;
    for (size_t t = 0; t < inside_.size(); ++t) {
      for (int p = 0; p < partitions_; ++p) within.emplace_back(static_cast<int>(Z(t, p)), 1);
    }
    Row(std::move(within), -kNoBound, static_cast<double>(inside_.size()) - crossing);
  }

  // What the chip holds at the least, a part at a time: what kernels hold by themselves, and tiles
  // of tensors, which either stay or are outside of both their ends. Two kernels that need more
  // than half of it each are apart.
  int LeastPartitions() const {
    const double chip = costs_.SramCapacity();
    double room = 0;
    int large = 0;
    std::vector<bool> streams(kernels_.size());
    for (size_t k = 0; k < kernels_.size(); ++k) {
      const auto [own, tiles] = HeldBy(k);
      streams[k] = own + tiles > chip;
      room += streams[k] ? chip : own;
      large += own > chip / 2 ? 1 : 0;
    }
    for (const size_t t : inside_) {
      const Tensor& tensor = workload_.tensors[t];
      if (streams[Index(tensor.from)] || streams[Index(tensor.to)]) continue;
      room += std::min(4.0, costs_.TilesUnderWay(t)) * costs_.TileBytesOf(t);
    }
    return std::max(large, static_cast<int>(std::ceil(room / chip * (1 - 1e-9))));
  }

  int ConnectedParts() const {
    std::vector<size_t> part(kernels_.size());
    std::iota(part.begin(), part.end(), size_t{0});
    auto parts = static_cast<int>(kernels_.size());
    for (const size_t t : inside_) {
      const size_t from = part[Index(workload_.tensors[t].from)],
                   to = part[Index(workload_.tensors[t].to)];
      if (from == to) continue;
      --parts;
      std::replace(part.begin(), part.end(), from, to);
    }
    return parts;
  }

  // SRAM of kernel k without the tiles of tensors within the pass; what streams its weights has all
  // of the chip to itself.
  double RoomOf(size_t k) const {
    const auto [own, tiles] = HeldBy(k);
    const KernelSet alone = KernelSet{1} << kernels_[k];
    const bool streams = own + tiles > costs_.SramCapacity() && costs_.Of(alone).has_value();
    return streams ? std::max(0.0, costs_.SramCapacity() - tiles) : own;
  }
  // Bytes of the kernel and its tensors with other passes, and of two tiles of each within the
  // pass.
  std::pair<double, double> HeldBy(size_t k) const {
    const KernelSet alone = KernelSet{1} << kernels_[k];
    double own = costs_.KernelSramBytes(kernels_[k]), tiles = 0;
    for (size_t t = 0; t < workload_.tensors.size(); ++t) {
      const Tensor& tensor = workload_.tensors[t];
      if (!Has(alone, tensor.from) && !Has(alone, tensor.to)) continue;
      (In(tensor.from) && In(tensor.to) ? tiles : own) += 2 * costs_.TileBytesOf(t);
    }
    return {own, tiles};
  }

  void AddPartition(int p) {
    Terms compute, memory, network, sram;
    const double chip = costs_.SramCapacity();
    for (size_t k = 0; k < kernels_.size(); ++k) {
      const PartitionCosts::Additive of = costs_.SumOf(KernelSet{1} << kernels_[k]);
      AddIn(k, p, of.compute_ns / unit_ns_, compute);
      AddIn(k, p, of.network_ns / unit_ns_, network);
      AddIn(k, p, of.memory_ns / unit_ns_, memory);
      AddIn(k, p, RoomOf(k) / chip, sram);
    }
    for (size_t t = 0; t < workload_.tensors.size(); ++t) {
      const Tensor& tensor = workload_.tensors[t];
      const double time = costs_.MemoryNs(costs_.TensorBytes(t)) / unit_ns_;
      for (const int kernel : {tensor.from, tensor.to}) {
        if (!In(kernel)) continue;
        AddIn(Index(kernel), p, time, memory);
        if (In(tensor.from) && In(tensor.to))
          AddIn(Index(kernel), p, 2 * costs_.TileBytesOf(t) / chip, sram);
      }
    }
    for (size_t t = 0; t < inside_.size(); ++t) {
      const auto z = static_cast<int>(Z(t, p));
      memory.emplace_back(z, -2 * costs_.MemoryNs(costs_.TensorBytes(inside_[t])) / unit_ns_);
      sram.emplace_back(
          z, (costs_.TilesUnderWay(inside_[t]) - 4) * costs_.TileBytesOf(inside_[t]) / chip);
    }
    // Tiles are rounded; what fits in one way of adding up fits in another.
    Row(std::move(sram), -kNoBound, 1 + 1e-9);
    AddMemoryLimit(p);
    if (!costs_.overlaps()) {
      for (const Terms* more : {&memory, &network})
        compute.insert(compute.end(), more->begin(), more->end());
      times_.push_back({compute});
    } else {
      times_.push_back({compute, memory, network});
    }
    for (Terms terms : times_.back()) {
      for (auto& [column, value] : terms) value = -value;
      terms.emplace_back(static_cast<int>(T(p)), 1);
      Row(std::move(terms), 0, kNoBound);
    }
  }

  // Tensors that are made by then and not read before, but for those that stay on the chip.
  void AddMemoryLimit(int p) {
    double all = 0;
    for (size_t t = 0; t < workload_.tensors.size(); ++t) all += costs_.TensorBytes(t);
    if (limits_.dram_bytes <= RealBytes() || all <= limits_.dram_bytes.count()) return;
    Terms live;
    double before = 0;
    for (size_t t = 0; t < workload_.tensors.size(); ++t) {
      const Tensor& tensor = workload_.tensors[t];
      const double bytes = costs_.TensorBytes(t);
      if (In(tensor.from)) live.emplace_back(static_cast<int>(Y(Index(tensor.from), p)), bytes);
      if (!In(tensor.to)) continue;
      if (!In(tensor.from)) before += bytes;
      if (p > 0) live.emplace_back(static_cast<int>(Y(Index(tensor.to), p - 1)), -bytes);
    }
    for (size_t t = 0; t < inside_.size(); ++t)
      live.emplace_back(static_cast<int>(Z(t, p)), -costs_.TensorBytes(inside_[t]));
    for (auto& [column, bytes] : live) bytes /= limits_.dram_bytes.count();
    Row(std::move(live), -kNoBound, 1 - before / limits_.dram_bytes.count() + 1e-9);
  }

  const Workload& workload_;
  const PartitionCosts& costs_;
  const PartitionLimits& limits_;
  int partitions_ = 1;
  double unit_ns_ = 1;           // what times are counted in: solvers' tolerances are those of ones
  std::vector<int> index_;       // by kernel: in kernels_; -1: of another pass
  std::vector<size_t> kernels_;  // of the pass
  std::vector<size_t> inside_;   // tensors
  std::vector<std::vector<Terms>> times_;  // by partition: terms of which it takes the longest
  MilpProblem problem_;
};

// Two neighbouring partitions that fit onto the chip together are no faster apart, as long as
// tensors between partitions have room: with this many of them, two would.
int MostPartitions(const Workload& workload, const PartitionCosts& costs,
                   const PartitionLimits& limits, KernelSet pass, int most) {
  double tensors = 0, room = 0;
  for (size_t t = 0; t < workload.tensors.size(); ++t) {
    tensors += costs.TensorBytes(t);
    const double tiles = std::max(2.0, costs.TilesUnderWay(t) / 2) * costs.TileBytesOf(t);
    room += (Has(pass, workload.tensors[t].from) ? tiles : 0) +
            (Has(pass, workload.tensors[t].to) ? tiles : 0);
  }
  for (size_t i = 0; i < costs.size(); ++i)
    room += Has(pass, static_cast<int64_t>(i)) ? costs.KernelSramBytes(i) : 0;
  const int kernels = std::popcount(pass);
  const bool apart = limits.dram_bytes > RealBytes() && tensors > limits.dram_bytes.count();
  // Cycles do not add up.
  if (apart || costs.rules().compute_utilisation == 0) return std::min(most, kernels);
  const double chips = std::ceil(room / costs.SramCapacity());
  return std::min({most, kernels, static_cast<int>(std::min(1000.0, 2 * chips + 1))});
}

}  // namespace

absl::StatusOr<Partitioning> SolvePartitionProgram(const Workload& workload,
                                                   const PartitionCosts& costs,
                                                   const PartitionLimits& limits,
                                                   const Partitioning& start, int nodes) {
  const PassPartitions split = PassesOf(workload, limits);
  std::vector<int> partition_of(costs.size(), 0), started(costs.size(), 0);
  for (size_t p = 0; p < start.partitions.size(); ++p) {
    for (size_t i = 0; i < costs.size(); ++i)
      started[i] =
          Has(start.partitions[p].kernels, static_cast<int>(i)) ? static_cast<int>(p) : started[i];
  }
  double bound_ns = 0;
  bool optimal = true;  // within the solver's tolerances
  int first = 0;
  for (const KernelSet pass : split.passes) {
    if (pass == 0) continue;
    std::vector<int> own;
    int earlier = std::numeric_limits<int>::max(), used = 0;
    for (size_t i = 0; i < costs.size(); ++i)
      earlier = Has(pass, static_cast<int64_t>(i)) ? std::min(earlier, started[i]) : earlier;
    for (size_t i = 0; i < costs.size(); ++i) {
      if (!Has(pass, static_cast<int64_t>(i))) continue;
      own.push_back(started[i] - earlier);
      used = std::max(used, own.back() + 1);
    }
    const int partitions =
        std::max(used, MostPartitions(workload, costs, limits, pass, split.most));
    Program program(workload, costs, limits, pass, partitions, start.time.ns());
    program.Start(own);
    program.problem().max_nodes = nodes;
    FORETRACE_ASSIGN_OR_RETURN(const MilpSolution solution, SolveMilp(program.problem()));
    if (solution.found()) own = program.PartitionOf(solution.values);
    optimal = optimal && solution.status == MilpStatus::kOptimal;
    bound_ns += start.time.ns() * std::max(0.0, solution.bound);
    for (size_t k = 0; k < own.size(); ++k) partition_of[program.kernels()[k]] = first + own[k];
    first += partitions;
  }
  Partitioning out = start;
  const auto found = EvaluatePartitions(workload, costs, partition_of);
  const bool fits =
      found.ok() && (limits.dram_bytes <= RealBytes() || found->dram_bytes <= limits.dram_bytes);
  if (fits && found->time < start.time) out = *found;
  constexpr double kTolerance = 1e-6;
  out.bound = std::min(out.time, std::max(start.bound, (1 - kTolerance) * RealNs(bound_ns)));
  if (optimal && bound_ns >= out.time.ns() * (1 - kTolerance)) out.bound = out.time;
  return out;
}

}  // namespace foretrace::dataflow
