#pragma once
// Measured iteration times of mappings, and the cluster parameters that explain them.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/time.h"
#include "simulator/mapping/iteration_model.h"

namespace foretrace {

struct MeasuredMapping {
  std::string name;
  TransformerConfig model;
  ParallelMapping mapping;
  SimTime measured;
};

// Parameters that a fit may change.
enum class ClusterParameter : uint8_t {
  kMatrixEfficiency,
  kMatrixHalfSize,
  kMemoryEfficiency,
  kNodeShare,
  kNicShare,
  kLaunchFloor,
  kGemmSlowdown,
  kCount,
};

std::string_view Name(ClusterParameter parameter);

// Minimises the mean absolute relative error over `rows` by a pattern search on the logarithms of
// `free`, from and with the rest of `start`. Values stay plausible for the default cluster:
// efficiencies from 0.3 to 0.95, bandwidth within a node from 100 to 300 GB/s, of adapters 8 to 25
// a device. Deterministic. A parameter that starts at zero stays there.
absl::StatusOr<ClusterParameters> FitCluster(const std::vector<MeasuredMapping>& rows,
                                             const ClusterParameters& start,
                                             const std::vector<ClusterParameter>& free);

}  // namespace foretrace
