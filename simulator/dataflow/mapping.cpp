#include "simulator/dataflow/mapping.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/dataflow/mapping_costs.h"
#include "simulator/dataflow/sharding_candidates.h"

namespace foretrace::dataflow {
namespace {

constexpr std::array<std::string_view, 3> kRules = {"physical", "dse", "early"};

}  // namespace

std::string_view Name(Exchange::Kind kind) {
  constexpr std::array<std::string_view, 5> kNames = {"all_reduce", "all_gather", "all_to_all",
                                                      "broadcast", "reduce_scatter"};
  return kNames.at(static_cast<size_t>(kind));
}

std::string_view Name(IterationRule rule) { return kRules.at(static_cast<size_t>(rule)); }

absl::StatusOr<IterationRule> ParseIterationRule(std::string_view text) {
  for (size_t i = 0; i < kRules.size(); ++i) {
    if (text == kRules[i]) return static_cast<IterationRule>(i);
  }
  return InvalidInput("'{}' is no iteration rule; allowed: {}", text, fmt::join(kRules, ", "));
}

double MappedWorkload::dram_traffic_bytes() const {
  double bytes = 0;
  for (const Partition& p : partitioning.partitions) bytes += p.dram_traffic_bytes;
  return bytes;
}

absl::Status CheckSystem(const System& system) {
  const Chip& c = system.chip;
  if (c.tiles < 1 || c.width < 1 || c.depth < 1 || !(c.clock_ghz > 0)) {
    return InvalidInput(
        "system {}: chip {} states no tiles, width, depth and clock; give them as "
        "chip: {{tiles, width, depth, clock_GHz}}",
        system.name, c.name);
  }
  if (c.sram <= Bytes(0)) {
    return InvalidInput("system {}: chip {} has no SRAM; give chip.sram_MB", system.name, c.name);
  }
  if (system.memory.bandwidth <= Bandwidth() || system.memory.capacity <= Bytes(0)) {
    return InvalidInput(
        "system {}: it has no off-chip memory; give memory: {{bandwidth_GBps, capacity_GB}}",
        system.name);
  }
  if (system.dimensions.empty()) {
    return InvalidInput("system {}: it has no network; give network: a list of dimensions",
                        system.name);
  }
  return absl::OkStatus();
}

absl::StatusOr<MappedWorkload> Evaluate(const Workload& workload, const System& system,
                                        const Formulas& formulas, const Mapping& mapping) {
  FORETRACE_RETURN_IF_ERROR(CheckSystem(system));
  FORETRACE_RETURN_IF_ERROR(Validate(workload));
  FORETRACE_ASSIGN_OR_RETURN(MappingCosts costs,
                             MappingCosts::Create(workload, system, formulas, mapping));
  FORETRACE_RETURN_IF_ERROR(costs.CheckResident());
  FORETRACE_ASSIGN_OR_RETURN(
      Partitioning partitioning,
      EvaluatePartitions(workload, costs.partitions(), mapping.partition_of));
  return costs.Finish(std::move(partitioning));
}

namespace {

// Ways to use the dimensions whose role is open.
std::vector<std::vector<Role>> RolesOf(const Workload& workload, const System& system) {
  std::vector<std::vector<Role>> all = {{}};
  for (const SystemDimension& d : system.dimensions) {
    std::vector<Role> allowed = {Role::kTensor, Role::kPipeline, Role::kData};
    if (workload.per_chip) {
      allowed = {Role::kAll};
    } else if (d.role != Role::kCount) {
      allowed = {d.role};
    }
    std::vector<std::vector<Role>> longer;
    for (const std::vector<Role>& roles : all) {
      for (const Role r : allowed) {
        longer.push_back(roles);
        longer.back().push_back(r);
      }
    }
    all = std::move(longer);
  }
  return all;
}

std::vector<double> MicroBatches(double samples, const Formulas& formulas,
                                 const SearchLimits& limits) {
  if (limits.micro_batch > 0) return {limits.micro_batch};
  // Published: weights cost nothing, so that more than one sample gains nothing.
  if (formulas.iteration == IterationRule::kDse) return {1};
  std::vector<double> out;
  for (double m = 1; m <= samples && m <= 1024; m *= 2) {
    if (std::fmod(samples, m) == 0) out.push_back(m);
  }
  return out;
}

// By utilisation the finest tiles are never worse: they need the least SRAM, and cost is per
// tensor.
std::vector<int64_t> TileCounts(const Workload& workload, const Formulas& formulas,
                                const SearchLimits& limits) {
  if (limits.tiles > 0) return {limits.tiles};
  if (formulas.compute_utilisation > 0) return {workload.tiled_size};
  std::vector<int64_t> out;
  for (int64_t size = 1; size <= workload.tiled_size; size *= 2) {
    out.push_back((workload.tiled_size + size - 1) / size);
  }
  return out;
}

// Each kernel is a partition.
bool Alone(const System& system, const SearchLimits& limits) {
  return system.chip.execution == Execution::kKernelByKernel && !limits.partition_of;
}

ShardingCandidates CandidatesOf(const Workload& workload, const System& system,
                                const Formulas& formulas, const Mapping& mapping,
                                const SearchLimits& limits) {
  ShardingCandidates only;
  if (limits.shardings) {
    only.shardings = {*limits.shardings};
  } else if (limits.tensor_parallel_shardings && mapping.tensor > 1) {
    only.shardings = {MegatronShardings(workload)};
  } else {
    return SolveCandidates(workload, system, formulas, mapping, Alone(system, limits));
  }
  return only;
}

// What is found for each use of the dimensions, micro-batch, number of tiles and recomputation (a
// group of candidates, which differ in their shardings), the best of all in `best_`.
class Optimiser {
 public:
  Optimiser(const Workload& workload, const System& system, const Formulas& formulas,
            const SearchLimits& limits)
      : workload_(workload), system_(system), formulas_(formulas), limits_(limits) {}

  absl::Status TryRoles(const std::vector<Role>& roles) {
    Mapping mapping;
    mapping.roles = roles;
    System used = system_;
    for (size_t i = 0; i < roles.size(); ++i) used.dimensions[i].role = roles[i];
    mapping.tensor = used.degree(Role::kTensor);
    mapping.pipeline = used.degree(Role::kPipeline);
    mapping.data = used.degree(Role::kData);
    const auto replicas = static_cast<double>(mapping.data);
    if (mapping.pipeline > workload_.layers || std::fmod(workload_.batch, replicas) != 0)
      return absl::OkStatus();
    const bool same = SameForEveryMicroBatch(used, formulas_);
    std::optional<ShardingCandidates> candidates;
    for (const double micro_batch : MicroBatches(workload_.batch / replicas, formulas_, limits_)) {
      mapping.micro_batch = micro_batch;
      for (const int64_t tiles : TileCounts(workload_, formulas_, limits_)) {
        mapping.tiles = tiles;
        for (const bool recompute : {false, true}) {
          mapping.recompute = recompute;
          if (!MayRecompute(recompute)) continue;
          if (!candidates || !same)
            candidates = CandidatesOf(workload_, used, formulas_, mapping, limits_);
          FORETRACE_RETURN_IF_ERROR(Bound(mapping, *candidates));
        }
      }
    }
    return absl::OkStatus();
  }

  // Groups with the least bounds first, until no bound is below what was found.
  absl::Status TryAll() {
    std::stable_sort(groups_.begin(), groups_.end(),
                     [](const Group& a, const Group& b) { return a.bound_ns < b.bound_ns; });
    for (Group& group : groups_) {
      if (best_ && group.bound_ns >= best_->time.total_ns) break;
      FORETRACE_ASSIGN_OR_RETURN(Found found, TryGroup(group));
      if (found && (!best_ || found->time.total_ns < best_->time.total_ns))
        best_ = std::move(found);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<MappedWorkload> Take() {
    if (!best_) {
      // What fits into memory as a whole and nowhere in its partitions is nearer than what does
      // not.
      if (!last_.ok()) return last_;
      if (!nearest_.ok()) return nearest_;
      return Infeasible(
          "workload {}: no use of system {}'s {} dimensions divides its {} layers and batch of {}",
          workload_.name, system_.name, system_.dimensions.size(), workload_.layers,
          workload_.batch);
    }
    best_->candidates = candidates_;
    best_->pruned = candidates_ - evaluated_;
    best_->shardings_given = limits_.shardings || limits_.tensor_parallel_shardings;
    best_->bound_ns = best_->time.total_ns;
    for (const Group& g : groups_) best_->bound_ns = std::min(best_->bound_ns, g.bound_ns);
    return std::move(*best_);
  }

 private:
  using Found = std::unique_ptr<MappedWorkload>;  // an optional: GCC 12 warns of it where inlined
  struct Group {
    double bound_ns = 0;  // no mapping of the group takes less
    bool only = false;    // there are no shardings besides the candidates'
    bool open = false;    // there are, and one may be faster
    std::vector<std::pair<double, Mapping>> candidates;  // with their bounds
  };

  bool MayRecompute(bool recompute) const {
    if (limits_.recompute && *limits_.recompute != recompute) return false;
    return !recompute || (workload_.trains() && formulas_.iteration == IterationRule::kPhysical);
  }

  absl::Status Bound(Mapping mapping, const ShardingCandidates& candidates) {
    const bool alone = Alone(system_, limits_);
    Group group;
    group.only = !candidates.sample_bound_ns;
    group.open = !group.only;
    group.bound_ns = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < candidates.shardings.size(); ++i) {
      mapping.shardings = candidates.shardings[i];
      FORETRACE_ASSIGN_OR_RETURN(const MappingCosts costs,
                                 MappingCosts::Create(workload_, system_, formulas_, mapping));
      const IterationTime bound = costs.LowerBound(alone);
      if (group.open && i == 0) {
        // Where transfers take longer than a stage, time is no sum over kernels.
        const auto stages = static_cast<double>(mapping.pipeline);
        const bool hidden = bound.bubble_ns <= (stages - 1) * bound.stage_ns * (1 + 1e-12);
        const bool least = candidates.least && hidden;
        group.open = !least || !costs.CheckResident().ok();
        group.bound_ns = least ? bound.total_ns
                               : costs.BoundNs(*candidates.sample_bound_ns * mapping.micro_batch);
      }
      const absl::Status fits = costs.CheckResident();
      if (fits.ok()) {
        group.candidates.emplace_back(bound.total_ns, mapping);
        if (group.only) group.bound_ns = std::min(group.bound_ns, bound.total_ns);
      } else if (costs.ResidentBytes() < least_resident_) {
        least_resident_ = costs.ResidentBytes();
        nearest_ = fits;
      }
    }
    if (group.candidates.empty()) return absl::OkStatus();
    candidates_ += static_cast<int64_t>(group.candidates.size());
    groups_.push_back(std::move(group));
    return absl::OkStatus();
  }

  // Null: nothing fits.
  absl::StatusOr<Found> TryGroup(Group& group) {
    std::stable_sort(group.candidates.begin(), group.candidates.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    Found best;
    for (const auto& [bound, mapping] : group.candidates) {
      if (best && bound >= best->time.total_ns) break;
      ++evaluated_;
      FORETRACE_RETURN_IF_ERROR(Try(mapping, best));
    }
    // Shardings and partitions in turn, as long as that is faster.
    while (best && group.open && group.bound_ns < best->time.total_ns * (1 - 1e-9)) {
      const double before = best->time.total_ns;
      FORETRACE_RETURN_IF_ERROR(ImproveShardings(best));
      if (best->time.total_ns >= before) break;
      FORETRACE_RETURN_IF_ERROR(Try(Mapping(best->mapping), best));
    }
    if (best && group.only) group.bound_ns = std::max(group.bound_ns, best->time.total_ns);
    return best;
  }

  // One kernel's sharding after another, with the same partitions.
  absl::Status ImproveShardings(Found& best) {
    const double exact = best->partitioning.bound_ns / best->partitioning.time_ns;
    System used = system_;
    for (size_t i = 0; i < best->mapping.roles.size(); ++i)
      used.dimensions[i].role = best->mapping.roles[i];
    const TensorGroup group = GroupOf(used, formulas_, Role::kTensor, best->mapping.micro_batch);
    for (size_t i = 0; i < workload_.kernels.size(); ++i) {
      for (const Sharding d : AllowedShardings(workload_.kernels[i], group, false)) {
        Mapping mapping = best->mapping;
        if (mapping.shardings[i] == d) continue;
        mapping.shardings[i] = d;
        FORETRACE_ASSIGN_OR_RETURN(const MappingCosts costs,
                                   MappingCosts::Create(workload_, system_, formulas_, mapping));
        if (!costs.CheckResident().ok()) continue;
        auto partitioning = EvaluatePartitions(workload_, costs.partitions(), mapping.partition_of);
        if (!partitioning.ok()) continue;
        partitioning->bound_ns = exact * partitioning->time_ns;
        auto found = costs.Finish(*std::move(partitioning));
        if (found.ok() && found->time.total_ns < best->time.total_ns * (1 - 1e-12))
          best = std::make_unique<MappedWorkload>(*std::move(found));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Try(const Mapping& mapping, Found& best) {
    auto costs = MappingCosts::Create(workload_, system_, formulas_, mapping);
    if (!costs.ok()) return costs.status();
    auto partitioning =
        limits_.partition_of
            ? EvaluatePartitions(workload_, costs->partitions(), *limits_.partition_of)
            : SolvePartitions(workload_, costs->partitions(), costs->limits());
    if (!partitioning.ok()) return Note(partitioning.status());
    auto found = costs->Finish(*std::move(partitioning));
    if (!found.ok()) return Note(found.status());
    if (!best || found->time.total_ns < best->time.total_ns)
      best = std::make_unique<MappedWorkload>(*std::move(found));
    return absl::OkStatus();
  }

  // What does not fit is no error as long as something else does.
  absl::Status Note(const absl::Status& status) {
    if (status.code() != absl::StatusCode::kFailedPrecondition) return status;
    if (last_.ok()) last_ = status;
    return absl::OkStatus();
  }

  const Workload& workload_;
  const System& system_;
  const Formulas& formulas_;
  const SearchLimits& limits_;
  Found best_;
  absl::Status nearest_, last_;
  double least_resident_ = std::numeric_limits<double>::infinity();
  std::vector<Group> groups_;
  int64_t candidates_ = 0, evaluated_ = 0;
};

}  // namespace

absl::StatusOr<MappedWorkload> Optimise(const Workload& workload, const System& system,
                                        const Formulas& formulas, const SearchLimits& limits) {
  FORETRACE_RETURN_IF_ERROR(CheckSystem(system));
  FORETRACE_RETURN_IF_ERROR(Validate(workload));
  const bool recomputes = limits.recompute.value_or(false);
  if (recomputes && (!workload.trains() || formulas.iteration != IterationRule::kPhysical)) {
    return InvalidInput("recompute: workload {} by the {} rule has nothing to recompute",
                        workload.name, Name(formulas.iteration));
  }
  Optimiser optimiser(workload, system, formulas, limits);
  for (const std::vector<Role>& roles : RolesOf(workload, system)) {
    FORETRACE_RETURN_IF_ERROR(optimiser.TryRoles(roles));
  }
  FORETRACE_RETURN_IF_ERROR(optimiser.TryAll());
  return optimiser.Take();
}

}  // namespace foretrace::dataflow
