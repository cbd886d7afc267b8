#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "simulator/dataflow/partition.h"
#include "simulator/dataflow/quantities.h"

namespace foretrace::dataflow {
RealBytes TileBytes(const Kernel& kernel, const ShardedKernel& sharded, int64_t tiles) {
  if (kernel.tiled == Loop::kCount || kernel.tiled == Loop::kK) return sharded.output_bytes;
  const auto size = sharded.size[static_cast<size_t>(kernel.tiled)];
  return static_cast<double>(CeilOf(size, tiles)) *
         (sharded.output_bytes / static_cast<double>(size));
}

double TimesRead(StreamedWeights rule, const ShardedKernel& sharded, RealBytes word_bytes,
                 double micro_batch, Bytes sram) {
  const double weights = sharded.weight_bytes.count(), room = CountOf(sram);
  if (weights <= room) return 1;
  const auto of = [&](Loop d) { return static_cast<double>(sharded.size[static_cast<size_t>(d)]); };
  const double columns = of(Loop::kN) * word_bytes.count() * micro_batch;
  const double in = of(Loop::kK) * columns, out = of(Loop::kOuter) * of(Loop::kM) * columns;
  if (rule == StreamedWeights::kEachTile) return std::max(1.0, (in + out) / room);
  const double weights_stay = 1 + in * (std::ceil(weights / room) - 1) / weights;
  return std::min(std::ceil(std::min(in, out) / room), weights_stay);
}

PartitionCosts::PartitionCosts(const Workload& workload, const ShardedWorkload& sharded,
                               const System& system, const PartitionRules& rules,
                               std::vector<double> network_ns, const KernelShares* alternatives)
    : workload_(workload),
      sharded_(sharded),
      system_(system),
      rules_(rules),
      network_ns_(std::move(network_ns)) {
  const std::vector<int> level = Levels(workload);
  const size_t n = sharded.kernels.size();
  predecessors_.assign(n, 0);
  network_ns_.resize(n, 0);
  std::vector<double> result_tile_bytes;  // by kernel
  for (size_t i = 0; i < n; ++i) {
    network_ns_[i] += sharded.kernels[i].reduce_time.ns();
    const bool tiled = workload.kernels[i].tiled != Loop::kCount;
    const double tiles = tiled ? static_cast<double>(rules.tiles) : 1;
    const auto least = [&](const auto& cost) {
      if (alternatives == nullptr) return cost(sharded.kernels[i]);
      double of = std::numeric_limits<double>::infinity();
      for (const ShardedKernel& k : (*alternatives)[i]) of = std::min(of, cost(k));
      return of;
    };
    sram_bytes_.push_back(least([&](const ShardedKernel& k) {
      return k.weight_bytes.count() + 2 * k.stored_bytes.count() / tiles;
    }));
    weight_traffic_.push_back(!rules.load_weights ? 0 : least([&](const ShardedKernel& k) {
      return k.weight_bytes.count() *
             TimesRead(rules.streamed, k, workload.word_bytes, rules.micro_batch, system.chip.sram);
    }));
    result_tile_bytes.push_back(least([&](const ShardedKernel& k) {
      return TileBytes(workload.kernels[i], k, rules.tiles).count();
    }));
  }
  for (const ShardedTensor& t : sharded.tensors) {
    predecessors_[static_cast<size_t>(t.to)] |= KernelSet{1} << t.from;
    network_ns_[static_cast<size_t>(t.from)] += t.convert_time.ns();
    const auto from = static_cast<size_t>(t.from);
    depth_.push_back(level[static_cast<size_t>(t.to)] - level[from] + 1);
    tile_bytes_.push_back(result_tile_bytes[from]);
  }
  overlaps_ = rules.overlap == Overlap::kMaximum || (rules.overlap == Overlap::kByMachine &&
                                                     system.chip.execution == Execution::kDataflow);
  if (rules.compute_utilisation > 0 || !rules.kernel_times.empty()) return;
  for (size_t i = 0; i < n; ++i) {
    allocations_.push_back(
        AllocationsOf(system.chip, workload.kernels[i], sharded.kernels[i], rules.tiles));
  }
}

std::vector<TileAllocation> AllocationsOf(const Chip& chip, const Kernel& kernel,
                                          const ShardedKernel& sharded, int64_t tiles) {
  LoopSizes size = sharded.size;
  if (kernel.tiled != Loop::kCount) {
    int64_t& tiled = size[static_cast<size_t>(kernel.tiled)];
    tiled = CeilOf(tiled, tiles);
  }
  // Of what is no GEMM, a lane does a multiply-add a cycle.
  const auto steps = static_cast<int64_t>(std::ceil(kernel.times / 2));
  if (!kernel.is_gemm()) size[3] *= std::max<int64_t>(steps, 1);
  return AllocationsOf(chip, kernel.is_gemm(), size[0] * size[1], size[2], size[3]);
}

double PartitionCosts::MeasuredNs(KernelSet set) const {
  double ns = 0;
  ForEach(set, [&](size_t i) { ns += rules_.kernel_times[i].ns(); });
  return ns;
}

double PartitionCosts::MemoryNs(double bytes) const {
  return rules_.kernel_times.empty() ? NsOf(bytes, system_.memory.bandwidth) : 0;
}

double PartitionCosts::SramCapacity() const { return CountOf(system_.chip.sram); }

double PartitionCosts::OwnBytes(size_t kernel) const {
  return (rules_.read_apart ? 0 : workload_.kernels[kernel].memory_bytes.count()) +
         sharded_.kernels[kernel].stored_bytes.count();
}

double PartitionCosts::ComputeNs(KernelSet set, std::vector<TileAllocation>* allocation) const {
  if (!rules_.kernel_times.empty()) return MeasuredNs(set);
  if (rules_.compute_utilisation > 0) {
    double flop = 0;
    ForEach(set, [&](size_t i) { flop += sharded_.kernels[i].flop.count(); });
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
  ForEach(set, [&](size_t i) { bytes += sram_bytes_[i]; });
  for (size_t i = 0; i < sharded_.tensors.size(); ++i) {
    const ShardedTensor& t = sharded_.tensors[i];
    const bool from = Has(set, t.from), to = Has(set, t.to);
    // As many tiles as are under way between the two; outside tensors are double-buffered.
    if (from && to) {
      bytes += tile_bytes_[i] * depth_[i];
    } else if (from || to) {
      bytes += 2 * tile_bytes_[i];
    }
  }
  return bytes;
}

double PartitionCosts::Combined(double compute_ns, double memory_ns, double network_ns) const {
  return overlaps_ ? std::max({compute_ns, memory_ns, network_ns})
                   : compute_ns + memory_ns + network_ns;
}

bool PartitionCosts::Streams(KernelSet set) const {
  return std::has_single_bit(set) &&
         (system_.chip.execution == Execution::kKernelByKernel ||
          workload_.kernels[static_cast<size_t>(std::countr_zero(set))].has_weights());
}

double PartitionCosts::TimeBelow(KernelSet set, double limit) const {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  double crossing = 0, once = 0, network = 0, sram = 0, flop = 0;
  ForEach(set, [&](size_t i) {
    const ShardedKernel& k = sharded_.kernels[i];
    flop += k.flop.count();
    network += network_ns_[i];
    crossing += OwnBytes(i);
    once += weight_traffic_[i];
    sram += sram_bytes_[i];
  });
  for (size_t i = 0; i < sharded_.tensors.size(); ++i) {
    const ShardedTensor& t = sharded_.tensors[i];
    const bool from = Has(set, t.from), to = Has(set, t.to);
    if (!from && !to) continue;
    if (from != to) crossing += t.bytes.count();
    sram += tile_bytes_[i] * (from && to ? depth_[i] : 2);
  }
  if (sram > CountOf(system_.chip.sram) && !Streams(set)) return kNever;
  double memory = NsOf(rules_.micro_batch * crossing + once, system_.memory.bandwidth);
  if (!rules_.kernel_times.empty()) memory = 0;
  network *= rules_.micro_batch;
  double compute = 0;
  if (!rules_.kernel_times.empty()) {
    compute = MeasuredNs(set);
  } else if (rules_.compute_utilisation > 0) {
    compute = rules_.micro_batch * flop / (rules_.compute_utilisation * system_.chip.gflops());
  } else if (Combined(0, memory, network) < limit) {
    compute = ComputeNs(set, nullptr);
    if (compute < 0) return kNever;
  }
  const double time = Combined(compute, memory, network);
  return time < limit ? time : kNever;
}

std::optional<Partition> PartitionCosts::Of(KernelSet set) const {
  Partition p;
  p.kernels = set;
  p.sram_bytes = RealBytes(SramBytes(set));
  if (const RealBytes most(system_.chip.sram); p.sram_bytes > most) {
    if (!Streams(set)) return std::nullopt;
    p.sram_bytes = most;
  }
  p.compute = RealNs(ComputeNs(set, &p.allocation));
  if (p.compute < RealNs()) return std::nullopt;
  double crossing = 0, once = 0;
  for (const ShardedTensor& t : sharded_.tensors) {
    if (Has(set, t.from) != Has(set, t.to)) crossing += t.bytes.count();
  }
  ForEach(set, [&](size_t i) {
    crossing += OwnBytes(i);
    p.network += RealNs(rules_.micro_batch * network_ns_[i]);
    once += weight_traffic_[i];
  });
  p.dram_traffic_bytes = RealBytes(rules_.micro_batch * crossing + once);
  // Measured kernels have it in their own time.
  if (rules_.kernel_times.empty()) {
    p.memory = TimeToMove(p.dram_traffic_bytes, system_.memory.bandwidth);
  }
  p.time = RealNs(Combined(p.compute.ns(), p.memory.ns(), p.network.ns()));
  return p;
}

PartitionCosts::Additive PartitionCosts::SumOf(KernelSet set) const {
  Additive sum;
  double flop = 0, memory = 0;
  ForEach(set, [&](size_t i) {
    flop += sharded_.kernels[i].flop.count();
    memory += OwnBytes(i) * rules_.micro_batch + weight_traffic_[i];
    sum.network_ns += network_ns_[i] * rules_.micro_batch;
    sum.weight_bytes += sharded_.kernels[i].weight_bytes.count();
  });
  const double share = rules_.compute_utilisation > 0 ? rules_.compute_utilisation : 1;
  sum.compute_ns = rules_.micro_batch * flop / (share * system_.chip.gflops());
  sum.memory_ns = NsOf(memory, system_.memory.bandwidth);
  if (!rules_.kernel_times.empty()) {
    sum.compute_ns = MeasuredNs(set);
    sum.memory_ns = 0;
  }
  return sum;
}

bool PartitionCosts::MayTakeLess(const Additive& less, const Additive& more, double limit) const {
  // Differences are rounded; what is near the limit is looked at.
  constexpr double kSlack = 1 - 1e-9;
  if ((more.weight_bytes - less.weight_bytes) * kSlack > CountOf(system_.chip.sram)) return false;
  const double compute = more.compute_ns - less.compute_ns,
               memory = more.memory_ns - less.memory_ns,
               network = more.network_ns - less.network_ns;
  const double least = Combined(compute, memory, network);
  return least * kSlack < limit;
}

double PartitionCosts::LiveBytes(KernelSet before, KernelSet after) const {
  double bytes = 0;
  const KernelSet now = after & ~before;
  for (const ShardedTensor& t : sharded_.tensors) {
    const bool inside = Has(now, t.from) && Has(now, t.to);
    if (!inside && Has(after, t.from) && !Has(before, t.to)) bytes += t.bytes.count();
  }
  return bytes * rules_.micro_batch;
}

double PartitionCosts::AloneNs(size_t kernel) const {
  const auto alone = Of(KernelSet{1} << kernel);
  return alone ? alone->time.ns() : std::numeric_limits<double>::infinity();
}

double PartitionCosts::LowerBoundNs() const {
  KernelSet all = 0;
  for (size_t i = 0; i < size(); ++i) all |= KernelSet{1} << i;
  const Additive sum = SumOf(all);
  return Combined(sum.compute_ns, sum.memory_ns, sum.network_ns);
}

}  // namespace foretrace::dataflow
