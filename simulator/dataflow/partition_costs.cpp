#include <algorithm>
#include <bit>

#include "simulator/dataflow/partition.h"

namespace foretrace::dataflow {
namespace {

int64_t CeilOf(int64_t size, int64_t parts) { return (size + parts - 1) / parts; }
bool Has(KernelSet set, int kernel) { return ((set >> kernel) & 1) != 0; }

template <typename Visit>
void ForEach(KernelSet set, const Visit& visit) {
  for (; set != 0; set &= set - 1) visit(static_cast<size_t>(std::countr_zero(set)));
}

// Of a tile of the tensor: the tiled axis is cut into pieces, rounded up.
double TileBytes(const Kernel& kernel, const ShardedKernel& sharded, int64_t tiles) {
  if (kernel.tiled == Dimension::kCount || kernel.tiled == Dimension::kK)
    return sharded.output_bytes;
  const auto size = sharded.size[static_cast<size_t>(kernel.tiled)];
  return sharded.output_bytes / static_cast<double>(size) *
         static_cast<double>(CeilOf(size, tiles));
}

}  // namespace

PartitionCosts::PartitionCosts(const Workload& workload, const ShardedWorkload& sharded,
                               const System& system, const PartitionRules& rules,
                               std::vector<double> network_ns)
    : workload_(workload),
      sharded_(sharded),
      system_(system),
      rules_(rules),
      network_ns_(std::move(network_ns)),
      level_(Levels(workload)) {
  const size_t n = sharded.kernels.size();
  predecessors_.assign(n, 0);
  network_ns_.resize(n, 0);
  for (size_t i = 0; i < n; ++i) network_ns_[i] += sharded.kernels[i].reduce_ns;
  for (const ShardedTensor& t : sharded.tensors) {
    predecessors_[static_cast<size_t>(t.to)] |= KernelSet{1} << t.from;
    network_ns_[static_cast<size_t>(t.from)] += t.convert_ns;
    const auto from = static_cast<size_t>(t.from);
    tile_bytes_.push_back(TileBytes(workload.kernels[from], sharded.kernels[from], rules.tiles));
  }
  overlaps_ = rules.overlap == Overlap::kMaximum || (rules.overlap == Overlap::kByMachine &&
                                                     system.chip.execution == Execution::kDataflow);
  if (rules.compute_utilisation > 0) return;
  for (size_t i = 0; i < n; ++i) {
    std::array<int64_t, kDimensions> size = sharded.kernels[i].size;
    const Kernel& k = workload.kernels[i];
    if (k.tiled != Dimension::kCount) {
      int64_t& tiled = size[static_cast<size_t>(k.tiled)];
      tiled = CeilOf(tiled, rules.tiles);
    }
    allocations_.push_back(AllocationsOf(system.chip, k.kind != KernelKind::kElementwise,
                                         size[0] * size[1], size[2], size[3]));
  }
}

double PartitionCosts::ComputeNs(KernelSet set, std::vector<TileAllocation>* allocation) const {
  if (rules_.compute_utilisation > 0) {
    double flop = 0;
    ForEach(set, [&](size_t i) { flop += sharded_.kernels[i].flop; });
    return rules_.micro_batch * flop / (rules_.compute_utilisation * system_.chip.gflops());
  }
  std::vector<const std::vector<TileAllocation>*> fronts;
  ForEach(set, [&](size_t i) { fronts.push_back(&allocations_[i]); });
  auto tiles = Allocate(system_.chip, fronts);
  if (!tiles) return -1;
  int64_t cycles = 0;
  for (const TileAllocation& a : *tiles) cycles = std::max(cycles, a.cycles);
  if (allocation != nullptr) *allocation = *std::move(tiles);
  return rules_.micro_batch * static_cast<double>(cycles) * static_cast<double>(rules_.tiles) /
         system_.chip.clock_ghz;
}

double PartitionCosts::SramBytes(KernelSet set) const {
  double bytes = 0;
  ForEach(set, [&](size_t i) { bytes += sharded_.kernels[i].weight_bytes; });
  for (size_t i = 0; i < sharded_.tensors.size(); ++i) {
    const ShardedTensor& t = sharded_.tensors[i];
    const bool from = Has(set, t.from), to = Has(set, t.to);
    // As many tiles as are under way between the two; outside tensors are double-buffered.
    if (from && to) {
      bytes += tile_bytes_[i] *
               (level_[static_cast<size_t>(t.to)] - level_[static_cast<size_t>(t.from)] + 1);
    } else if (from || to) {
      bytes += 2 * tile_bytes_[i];
    }
  }
  return bytes;
}

std::optional<Partition> PartitionCosts::Of(KernelSet set) const {
  const bool one = std::has_single_bit(set);
  const bool streams =
      one && (system_.chip.execution == Execution::kKernelByKernel ||
              workload_.kernels[static_cast<size_t>(std::countr_zero(set))].has_weights());
  Partition p;
  p.kernels = set;
  p.sram_bytes = SramBytes(set);
  if (p.sram_bytes > system_.chip.sram_bytes) {
    if (!streams) return std::nullopt;
    p.sram_bytes = system_.chip.sram_bytes;
  }
  p.compute_ns = ComputeNs(set, &p.allocation);
  if (p.compute_ns < 0) return std::nullopt;
  double crossing = 0, once = 0;
  for (const ShardedTensor& t : sharded_.tensors) {
    if (Has(set, t.from) != Has(set, t.to)) crossing += t.bytes;
  }
  ForEach(set, [&](size_t i) {
    crossing += workload_.kernels[i].memory_bytes;
    p.network_ns += rules_.micro_batch * network_ns_[i];
    if (rules_.load_weights) once += sharded_.kernels[i].weight_bytes;
  });
  p.dram_traffic_bytes = rules_.micro_batch * crossing + once;
  p.memory_ns = p.dram_traffic_bytes / system_.memory.gbps;
  p.time_ns = overlaps_ ? std::max({p.compute_ns, p.memory_ns, p.network_ns})
                        : p.compute_ns + p.memory_ns + p.network_ns;
  return p;
}

double PartitionCosts::LiveBytes(KernelSet before, KernelSet after) const {
  double bytes = 0;
  const KernelSet now = after & ~before;
  for (const ShardedTensor& t : sharded_.tensors) {
    const bool inside = Has(now, t.from) && Has(now, t.to);
    if (!inside && Has(after, t.from) && !Has(before, t.to)) bytes += t.bytes;
  }
  return bytes * rules_.micro_batch;
}

double PartitionCosts::LowerBoundNs() const {
  double flop = 0, network = 0, memory = 0;
  for (size_t i = 0; i < size(); ++i) {
    flop += sharded_.kernels[i].flop;
    network += network_ns_[i];
    memory += workload_.kernels[i].memory_bytes * rules_.micro_batch;
    if (rules_.load_weights) memory += sharded_.kernels[i].weight_bytes;
  }
  const double share = rules_.compute_utilisation > 0 ? rules_.compute_utilisation : 1;
  const double compute = rules_.micro_batch * flop / (share * system_.chip.gflops());
  network *= rules_.micro_batch;
  memory /= system_.memory.gbps;
  return overlaps_ ? std::max({compute, memory, network}) : compute + memory + network;
}

}  // namespace foretrace::dataflow
