#include "simulator/dataflow/mapping_costs.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "simulator/base/check.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/dataflow/quantities.h"
#include "simulator/dataflow/sharding_candidates.h"

namespace foretrace::dataflow {
namespace {

// Adam in 32 bits beside 16-bit weights (Korthikanti et al. 2022): 16-bit weight and gradient, and
// 12 bytes of state, of which a step reads all and writes all but the gradient.
constexpr double kCopyBytes = 2 + 2, kStateBytes = 12;
constexpr double kStepBytes = 2 + 12 + 12 + 2;

AllToAllFormula AllToAllOf(const Formulas& formulas) {
  return formulas.iteration == IterationRule::kPhysical ? AllToAllFormula::kPhysical
                                                        : AllToAllFormula::kDse;
}

}  // namespace

std::vector<NetworkDimension> NetworksOf(const System& system, Role role) {
  std::vector<NetworkDimension> out;
  for (const SystemDimension& d : system.dimensions) {
    if (d.role == role && d.network.size > 1) out.push_back(d.network);
  }
  return out;
}

bool Repeats(Recompute recompute, const Kernel& kernel) {
  if (kernel.pass != Direction::kForward) return false;
  return recompute == Recompute::kFull ||
         (recompute == Recompute::kSelective && kernel.attention != AttentionPart::kNone);
}

RealNs OptimizerTime(const System& system, const Workload& workload, const Mapping& mapping,
                     RealBytes weights) {
  const double share = mapping.scheme.zero > 0 ? static_cast<double>(mapping.data) : 1;
  const double parameters = weights.count() / share / workload.word_bytes.count();
  return TimeToMove(RealBytes(parameters * kStepBytes), system.memory.bandwidth);
}

TensorGroup GroupOf(const System& system, const Formulas& formulas, Role role, double samples) {
  TensorGroup group = {NetworksOf(system, role), formulas.all_reduce, AllToAllOf(formulas)};
  for (const SystemDimension& d : system.dimensions) {
    if (d.network.size <= 1) continue;
    if (d.role == role) group.measured = formulas.kernel_times;
    break;
  }
  group.samples = samples;
  group.published = formulas.iteration != IterationRule::kPhysical;
  return group;
}

namespace {

// The least of each kernel's shares; what leaves one is in whatever layout is read.
ShardedWorkload LeastOf(const Workload& workload, const KernelShares& shares) {
  ShardedWorkload out;
  for (const std::vector<ShardedKernel>& of : shares) {
    ShardedKernel least = of.front();
    for (const ShardedKernel& k : of) {
      least.flop = std::min(least.flop, k.flop);
      least.output_bytes = std::min(least.output_bytes, k.output_bytes);
      least.weight_bytes = std::min(least.weight_bytes, k.weight_bytes);
      least.stored_bytes = std::min(least.stored_bytes, k.stored_bytes);
    }
    least.reduce_time = RealNs();
    least.reduce_bytes = RealBytes();
    out.kernels.push_back(least);
  }
  for (const Tensor& t : workload.tensors)
    out.tensors.push_back(
        {t.from, t.to, out.kernels[static_cast<size_t>(t.from)].output_bytes, RealNs(), false});
  return out;
}

}  // namespace

MappingCosts::MappingCosts(const Workload& workload, const System& system, const Formulas& formulas,
                           const Mapping& mapping, const KernelShares* shares)
    : workload_(&workload),
      formulas_(formulas),
      mapping_(mapping),
      system_(std::make_unique<System>(system)) {
  FORETRACE_CHECK(mapping.roles.size() == system.dimensions.size());
  for (size_t i = 0; i < mapping.roles.size(); ++i) system_->dimensions[i].role = mapping.roles[i];
  layers_per_stage_ = (workload.layers + mapping.pipeline - 1) / mapping.pipeline;
  micro_batches_ = workload.batch / static_cast<double>(mapping.data) / mapping.micro_batch;
  sharded_ = std::make_unique<ShardedWorkload>(
      shares != nullptr ? LeastOf(workload, *shares)
                        : Shard(workload, mapping.shardings,
                                GroupOf(*system_, formulas, Role::kTensor, mapping.micro_batch)));
  PartitionRules rules;
  rules.overlap = formulas.overlap;
  rules.compute_utilisation = formulas.compute_utilisation;
  // Cycles are never fewer than those of the peak.
  if (shares != nullptr && rules.compute_utilisation == 0) rules.compute_utilisation = 1;
  rules.load_weights = formulas.iteration == IterationRule::kPhysical;
  rules.read_apart = formulas.iteration == IterationRule::kEarly;
  rules.streamed = formulas.streamed;
  rules.tiles = mapping.tiles;
  rules.micro_batch = mapping.micro_batch;
  for (size_t i = 0; i < workload.kernels.size() && formulas.kernel_times != nullptr; ++i)
    rules.kernel_times.push_back(KernelTime(i, shares));
  parts_ = std::make_unique<PartitionCosts>(workload, *sharded_, *system_, rules, KernelNetworkNs(),
                                            shares);
  if (workload.head && formulas.iteration == IterationRule::kPhysical) AddHead();
}

// Divided along the vocabulary, with its norms whole or along the sequence: what is faster.
void MappingCosts::AddHead() {
  const Workload& head = *workload_->head;
  head_ns_ = std::numeric_limits<double>::infinity();
  for (const Shardings& s :
       {MegatronShardings(head), SequenceParallelShardings(head, mapping_.tensor)}) {
    Mapping mapping = mapping_;
    mapping.shardings = s;
    mapping.recompute = Recompute::kNone;
    const MappingCosts costs(head, *system_, formulas_, mapping, nullptr);
    double ns = 0;
    for (size_t i = 0; i < head.kernels.size(); ++i) ns += costs.parts_->AloneNs(i);
    if (ns >= head_ns_) continue;
    head_ns_ = ns;
    head_weight_bytes_ = costs.ForwardWeightBytes();
  }
}

RealNs MappingCosts::KernelTime(size_t kernel, const KernelShares* shares) const {
  const auto of = [&](const ShardedKernel& k) {
    return formulas_.kernel_times->Of(workload_->graph, static_cast<OpId>(kernel), k.size,
                                      mapping_.micro_batch);
  };
  if (shares == nullptr) return of(sharded_->kernels[kernel]);
  RealNs least = RealNs::Infinite();
  for (const ShardedKernel& k : (*shares)[kernel]) least = std::min(least, of(k));
  return least;
}

namespace {

absl::Status CheckDivides(const Workload& workload, const Mapping& mapping) {
  const double samples = workload.batch / static_cast<double>(mapping.data);
  if (std::fmod(workload.batch, static_cast<double>(mapping.data)) != 0 ||
      std::fmod(samples, mapping.micro_batch) != 0) {
    return InvalidInput("a batch of {} does not divide by {} replicas and micro-batches of {}",
                        workload.batch, mapping.data, mapping.micro_batch);
  }
  const int64_t chunks = mapping.scheme.chunks;
  if (chunks == 1) return absl::OkStatus();
  if (mapping.pipeline == 1 || workload.layers % (mapping.pipeline * chunks) != 0) {
    return InvalidInput("chunks: {} stages of {} chunks do not divide {} layers", mapping.pipeline,
                        chunks, workload.layers);
  }
  if (std::fmod(samples / mapping.micro_batch, static_cast<double>(mapping.pipeline)) == 0)
    return absl::OkStatus();
  return InvalidInput("chunks: {:g} micro-batches do not divide into groups of {} stages",
                      samples / mapping.micro_batch, mapping.pipeline);
}

}  // namespace

absl::StatusOr<MappingCosts> MappingCosts::Create(const Workload& workload, const System& system,
                                                  const Formulas& formulas,
                                                  const Mapping& mapping) {
  FORETRACE_RETURN_IF_ERROR(CheckDivides(workload, mapping));
  return MappingCosts(workload, system, formulas, mapping, nullptr);
}

absl::StatusOr<MappingCosts> MappingCosts::CreateLeast(const Workload& workload,
                                                       const System& system,
                                                       const Formulas& formulas,
                                                       const Mapping& mapping,
                                                       const KernelShares& shares) {
  FORETRACE_RETURN_IF_ERROR(CheckDivides(workload, mapping));
  return MappingCosts(workload, system, formulas, mapping, &shares);
}

absl::Status MappingCosts::CheckResident() const {
  const double resident = ResidentBytes(), capacity = CountOf(system_->memory.capacity);
  if (resident <= capacity) return absl::OkStatus();
  return Infeasible(
      "tp{} pp{} dp{}: {} take {:.6g} GB on each chip, which has {:.6g}", mapping_.tensor,
      mapping_.pipeline, mapping_.data,
      workload_->trains() ? "weights, optimizer state and kept activations" : "weights and caches",
      resident * 1e-9, capacity * 1e-9);
}

double MappingCosts::SpreadGradientNs(size_t kernel) const {
  const bool spread = formulas_.iteration != IterationRule::kPhysical;
  if (!workload_->kernels[kernel].weight_gradient || !spread) return 0;
  const double bytes = sharded_->kernels[kernel].output_bytes.count();
  // The published DLRM run reduces over all chips at 1 GB/s, whatever the network.
  const TensorGroup replicas = GroupOf(*system_, formulas_, Role::kData);
  const double once =
      workload_->per_chip ? 2 * bytes : AllReduceTime(replicas, RealBytes(bytes)).ns();
  return once / (micro_batches_ * mapping_.micro_batch);
}

std::vector<Exchange> MappingCosts::OwnExchanges() const {
  const std::vector<NetworkDimension> all = system_->networks();
  const double samples = mapping_.micro_batch;  // exchanged at once
  std::vector<Exchange> out;
  for (size_t i = 0; i < workload_->kernels.size(); ++i) {
    const Kernel& k = workload_->kernels[i];
    const auto id = static_cast<int>(i);
    if (k.alltoall_bytes > RealBytes()) {
      const double ns =
          AllToAllTime(AllToAllOf(formulas_), all, samples * k.alltoall_bytes).ns() / samples;
      out.push_back({id, Exchange::Kind::kAllToAll, Role::kAll, k.alltoall_bytes, RealNs(ns)});
    }
    if (k.broadcast_bytes > RealBytes()) {
      const NetworkDimension& row = all.front();
      const double ns = NsOf(k.broadcast_bytes.count(), row.bandwidth) +
                        static_cast<double>(Steps(row)) * NsOf(row.latency) / samples;
      out.push_back({id, Exchange::Kind::kBroadcast, Role::kAll, k.broadcast_bytes, RealNs(ns)});
    }
  }
  return out;
}

std::vector<Exchange> MappingCosts::AllExchanges() const {
  std::vector<Exchange> out = OwnExchanges();
  for (size_t i = 0; i < sharded_->kernels.size(); ++i) {
    const ShardedKernel& k = sharded_->kernels[i];
    if (k.reduce_time == RealNs()) continue;
    const bool scattered = mapping_.shardings[i].scatter != Loop::kCount;
    const auto kind = scattered ? Exchange::Kind::kReduceScatter : Exchange::Kind::kAllReduce;
    out.push_back({static_cast<int>(i), kind, Role::kTensor, k.reduce_bytes, k.reduce_time});
  }
  for (const auto* tensors : {&sharded_->tensors, &sharded_->next_layer}) {
    for (const ShardedTensor& t : *tensors) {
      if (t.convert_time == RealNs()) continue;
      const auto kind = t.gathers ? Exchange::Kind::kAllGather : Exchange::Kind::kAllToAll;
      out.push_back({t.from, kind, Role::kTensor, t.bytes, t.convert_time});
    }
  }
  return out;
}

std::vector<double> MappingCosts::KernelNetworkNs() const {
  std::vector<double> ns(workload_->kernels.size(), 0);
  for (const Exchange& e : OwnExchanges()) ns[static_cast<size_t>(e.kernel)] += e.time.ns();
  for (const ShardedTensor& t : sharded_->next_layer)
    ns[static_cast<size_t>(t.from)] += t.convert_time.ns();
  for (size_t i = 0; i < ns.size(); ++i) ns[i] += SpreadGradientNs(i);
  return ns;
}

double MappingCosts::ForwardWeightBytes() const {
  double bytes = 0;
  for (size_t i = 0; i < workload_->kernels.size(); ++i) {
    if (workload_->kernels[i].pass == Direction::kForward)
      bytes += sharded_->kernels[i].weight_bytes.count();
  }
  return bytes;
}

double MappingCosts::ReadApartBytes() const {
  double bytes = 0;
  for (size_t i = 0; i < workload_->kernels.size(); ++i) {
    bytes += sharded_->kernels[i].weight_bytes.count() +
             workload_->kernels[i].memory_bytes.count() * mapping_.micro_batch;
  }
  return bytes;
}

double MappingCosts::StoredBytes() const {
  double bytes = 0;
  for (const ShardedKernel& k : sharded_->kernels) bytes += k.stored_bytes.count();
  return bytes;
}

double MappingCosts::StashBytes() const {
  double bytes = 0;
  for (const ShardedTensor& t : sharded_->tensors) {
    const bool kept = workload_->kernels[static_cast<size_t>(t.from)].pass == Direction::kForward &&
                      workload_->kernels[static_cast<size_t>(t.to)].pass == Direction::kBackward;
    const bool again =
        mapping_.recompute == Recompute::kSelective &&
        workload_->kernels[static_cast<size_t>(t.from)].attention == AttentionPart::kInner;
    bytes += kept && !again ? t.bytes.count() : 0;
  }
  return bytes;
}

MappingCosts::ResidentShares MappingCosts::resident() const {
  const auto layers = static_cast<double>(layers_per_stage_);
  ResidentShares shares;
  shares.weights = layers;
  if (formulas_.iteration != IterationRule::kPhysical) return shares;
  if (!workload_->trains()) {
    // Every sample of a pipeline has its own caches.
    shares.stored = micro_batches_ * mapping_.micro_batch * layers;
    return shares;
  }
  const double divided =
      mapping_.scheme.zero > 0 ? kStateBytes / static_cast<double>(mapping_.data) : kStateBytes;
  shares.weights = layers / workload_->word_bytes.count() * (kCopyBytes + divided);
  // Of the first stage, with transfers hidden behind other micro-batches (lowering.h); of chunks,
  // those of earlier chunks of the same micro-batches beside them.
  const auto stages = static_cast<double>(mapping_.pipeline),
             chunks = static_cast<double>(mapping_.scheme.chunks);
  const double under_way =
      std::min(micro_batches_, (2 * stages - 1 + (chunks - 1) * stages) / chunks);
  const bool full = mapping_.recompute == Recompute::kFull;
  // Recomputation keeps each layer's input, and one layer's stash while it runs backward.
  shares.stash = full ? mapping_.micro_batch : under_way * layers * mapping_.micro_batch;
  shares.others = head_weight_bytes_ / workload_->word_bytes.count() * (kCopyBytes + divided);
  if (full)
    shares.others +=
        under_way * layers * workload_->layer_input_bytes.count() * mapping_.micro_batch;
  return shares;
}

double MappingCosts::ResidentBytes() const {
  const ResidentShares shares = resident();
  return shares.weights * ForwardWeightBytes() + shares.stash * StashBytes() +
         shares.stored * StoredBytes() + shares.others;
}

PartitionLimits MappingCosts::limits() const {
  PartitionLimits limits;
  limits.partitions = system_->chip.max_partitions;
  limits.kernel_by_kernel = system_->chip.execution == Execution::kKernelByKernel;
  limits.dram_bytes = RealBytes(system_->memory.capacity) - RealBytes(ResidentBytes());
  return limits;
}

absl::StatusOr<MappedWorkload> MappingCosts::Finish(Partitioning partitioning) const {
  MappedWorkload out;
  out.mapping = mapping_;
  out.layers_per_stage = layers_per_stage_;
  out.micro_batches = micro_batches_;
  RealNs network;
  out.mapping.partition_of.assign(workload_->kernels.size(), 0);
  for (size_t p = 0; p < partitioning.partitions.size(); ++p) {
    const Partition& part = partitioning.partitions[p];
    ForEach(part.kernels, [&](size_t i) {
      out.mapping.partition_of[i] = static_cast<int>(p);
      out.flop_per_chip += Flop(sharded_->kernels[i].flop.count() * mapping_.micro_batch);
    });
    network += part.network;
  }
  out.exchanges = AllExchanges();
  out.tensors = sharded_->tensors;
  out.network = RealBytes(network.ns() * GBps(system_->dimensions.front().network.bandwidth));
  out.time = TimeOf(PassOf(partitioning));
  out.repeated = RepeatedOf(partitioning);
  const double dram = ResidentBytes() + partitioning.dram_bytes.count();
  out.dram = RealBytes(dram);
  if (dram > CountOf(system_->memory.capacity)) {
    return Infeasible("{:.6g} GB of DRAM are needed on each chip, which has {:.6g} GB", dram * 1e-9,
                      CountOf(system_->memory.capacity) * 1e-9);
  }
  const auto chips = static_cast<double>(system_->chips());
  const double copies = workload_->per_chip ? chips : 1;
  const double flop = (workload_->flop().count() * copies * static_cast<double>(workload_->layers) +
                       (head_ns_ > 0 ? workload_->head->flop().count() : 0)) *
                      workload_->batch;
  out.utilisation = flop / (out.time.total.ns() * system_->chip.gflops() * chips);
  out.partitioning = std::move(partitioning);
  return out;
}

}  // namespace foretrace::dataflow
