#include "simulator/dataflow/mapping.h"

#include <algorithm>
#include <array>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/dataflow/mapping_costs.h"
#include "simulator/dataflow/optimiser.h"

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

RealBytes MappedWorkload::dram_traffic() const {
  double bytes = 0;
  for (const Partition& p : partitioning.partitions) bytes += p.dram_traffic_bytes.count();
  return RealBytes(bytes);
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

absl::Status CheckScheme(const Workload& workload, const Formulas& formulas,
                         const SearchLimits& limits) {
  const bool trains = workload.trains() && formulas.iteration == IterationRule::kPhysical;
  if (trains) return absl::OkStatus();
  if (limits.recompute.value_or(Recompute::kNone) != Recompute::kNone) {
    return InvalidInput("recompute: workload {} by the {} rule has nothing to recompute",
                        workload.name, Name(formulas.iteration));
  }
  if (limits.scheme == TrainingScheme()) return absl::OkStatus();
  return InvalidInput("chunks, zero, overlap_gradients: workload {} by the {} rule does not train",
                      workload.name, Name(formulas.iteration));
}

}  // namespace

absl::StatusOr<MappedWorkload> Optimise(const Workload& workload, const System& system,
                                        const Formulas& formulas, const SearchLimits& limits) {
  FORETRACE_RETURN_IF_ERROR(CheckSystem(system));
  FORETRACE_RETURN_IF_ERROR(Validate(workload));
  FORETRACE_RETURN_IF_ERROR(CheckScheme(workload, formulas, limits));
  Optimiser optimiser(workload, system, formulas, limits);
  for (const std::vector<Role>& roles : RolesOf(workload, system)) {
    FORETRACE_RETURN_IF_ERROR(optimiser.AddRoles(roles));
  }
  return optimiser.Solve();
}

}  // namespace foretrace::dataflow
