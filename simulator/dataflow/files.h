#pragma once
// Workloads, systems, mappings and spaces of them as YAML (docs/dataflow.md has the keys).

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/shipped.h"
#include "simulator/dataflow/mapping.h"
#include "simulator/hardware/catalog.h"

namespace foretrace::dataflow {

inline constexpr ShippedKind kSystems = {"system", "topologies/systems", ".yaml"};
inline constexpr ShippedKind kStudies = {"study", "traces/workloads/studies", ".yaml"};

absl::StatusOr<Workload> LoadWorkload(const std::string& file);
// `accelerators`: what `chip: {accelerator: NAME}` may name.
absl::StatusOr<System> LoadSystem(const std::string& file, const AcceleratorCatalog& accelerators);

// A mapping as its file gives it; what it leaves out is the optimiser's to choose.
struct GivenMapping {
  SearchLimits limits;
  std::vector<Role> roles;  // empty: not given
};
// Errors: unknown kernels or axes; a kernel in two partitions or in none.
absl::StatusOr<GivenMapping> LoadMapping(const Workload& workload, const std::string& file);

// Every combination of its parts, in order: workload, variant, chip, topology, memory, link.
struct Space {
  // Of the published tables: `training` has those of DLRM's.
  enum class Columns : uint8_t { kPlain, kTraining };
  struct ChipChoice {
    Chip chip;
    std::vector<std::string> variants;  // in which it is; empty: all
  };
  struct WorkloadChoice {
    Workload workload;
    std::vector<std::string> chips, topologies;  // that it is for; empty: all
  };
  struct Topology {
    std::string name;
    std::vector<SystemDimension> dimensions;  // links that name no technology take the point's
  };
  struct Variant {
    std::string name;
    Overlap overlap = Overlap::kByMachine;
    std::vector<GivenMapping> given;  // by workload; empty: what the space's limits say
  };
  std::string name;
  Columns columns = Columns::kPlain;
  Formulas formulas;
  SearchLimits limits;
  std::vector<WorkloadChoice> workloads;
  std::vector<Variant> variants;
  std::vector<ChipChoice> chips;
  std::vector<Topology> topologies;
  std::vector<OffChipMemory> memories;
  std::vector<LinkTechnology> links;
  double switch_usd_per_gbps = 0, switch_watt_per_gbps = 0;
};
// Errors as of all files; a part without a single choice; more than 10 million points.
absl::StatusOr<Space> LoadSpace(const std::string& file, const AcceleratorCatalog& accelerators);

}  // namespace foretrace::dataflow
