#include "simulator/dataflow/mapping.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/dataflow/mapping_costs.h"

namespace foretrace::dataflow {
namespace {

constexpr std::array<std::string_view, 3> kRules = {"physical", "dse", "early"};

}  // namespace

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
  if (!(c.sram_bytes > 0)) {
    return InvalidInput("system {}: chip {} has no SRAM; give chip.sram_MB", system.name, c.name);
  }
  if (!(system.memory.gbps > 0) || !(system.memory.capacity_bytes > 0)) {
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

std::vector<Shardings> ShardingsOf(const Workload& workload, const TensorGroup& group,
                                   const SearchLimits& limits) {
  if (limits.shardings) return {*limits.shardings};
  if (group.size() == 1) return {Shardings(workload.kernels.size(), Dimension::kCount)};
  constexpr std::array<std::string_view, 2> kMegatron = {"heads", "ffn"};
  const Shardings megatron = ShardAlong(workload, kMegatron);
  if (limits.tensor_parallel_shardings) return {megatron};
  return {SolveShardings(workload, group, true), SolveShardings(workload, group, false), megatron};
}

// The candidates of one use of the dimensions, the best so far in `best`.
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
    const TensorGroup group = GroupOf(used, formulas_, Role::kTensor);
    for (const double micro_batch : MicroBatches(workload_.batch / replicas, formulas_, limits_)) {
      mapping.micro_batch = micro_batch;
      TensorGroup together = group;
      if (!group.linear()) together.samples = micro_batch;
      for (Shardings& shardings : ShardingsOf(workload_, together, limits_)) {
        mapping.shardings = std::move(shardings);
        for (const int64_t tiles : TileCounts(workload_, formulas_, limits_)) {
          mapping.tiles = tiles;
          for (const bool recompute : {false, true}) {
            mapping.recompute = recompute;
            if (limits_.recompute && *limits_.recompute != recompute) continue;
            if (recompute &&
                (!workload_.trains() || formulas_.iteration != IterationRule::kPhysical))
              continue;
            FORETRACE_RETURN_IF_ERROR(Bound(mapping));
          }
        }
      }
    }
    return absl::OkStatus();
  }

  // Those with the least bounds first, until no bound is below what was found.
  absl::Status TryAll() {
    std::stable_sort(open_.begin(), open_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [bound, mapping] : open_) {
      if (best_ && bound >= best_->time.total_ns) break;
      ++evaluated_;
      FORETRACE_RETURN_IF_ERROR(Try(mapping));
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
    best_->candidates = static_cast<int64_t>(open_.size());
    best_->pruned = best_->candidates - evaluated_;
    return std::move(*best_);
  }

 private:
  absl::Status Bound(const Mapping& mapping) {
    FORETRACE_ASSIGN_OR_RETURN(const MappingCosts costs,
                               MappingCosts::Create(workload_, system_, formulas_, mapping));
    const absl::Status fits = costs.CheckResident();
    if (fits.ok()) {
      open_.emplace_back(costs.LowerBoundNs(), mapping);
    } else if (costs.ResidentBytes() < least_resident_) {
      least_resident_ = costs.ResidentBytes();
      nearest_ = fits;
    }
    return absl::OkStatus();
  }

  absl::Status Try(const Mapping& mapping) {
    auto costs = MappingCosts::Create(workload_, system_, formulas_, mapping);
    if (!costs.ok()) return costs.status();
    auto partitioning =
        limits_.partition_of
            ? EvaluatePartitions(workload_, costs->partitions(), *limits_.partition_of)
            : SolvePartitions(workload_, costs->partitions(), costs->limits());
    if (!partitioning.ok()) return Note(partitioning.status());
    auto found = costs->Finish(*std::move(partitioning));
    if (!found.ok()) return Note(found.status());
    if (!best_ || found->time.total_ns < best_->time.total_ns) {
      best_ = std::make_unique<MappedWorkload>(*std::move(found));
    }
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
  std::unique_ptr<MappedWorkload> best_;  // an optional: GCC 12 warns of it where inlined
  absl::Status nearest_, last_;
  double least_resident_ = std::numeric_limits<double>::infinity();
  std::vector<std::pair<double, Mapping>> open_;  // with their bounds
  int64_t evaluated_ = 0;
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
