#pragma once
// What training software attains on a device, as fitted to measured iterations.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/mapping/iteration_model.h"

namespace foretrace {

struct ClusterCalibration {
  std::string file;
  std::vector<std::string> devices;  // of platforms that it holds for
  std::string source, fitted, errors;
  // Which of the values below were given.
  std::vector<std::string> given;
  ClusterParameters values;
};

// Keys: devices, source, fitted, errors (all required) and any of matrix_efficiency,
// memory_efficiency, node_share, nic_share, launch_floor_ms, gemm_slowdown.
// Errors name file, line and key.
absl::StatusOr<ClusterCalibration> LoadClusterCalibration(const std::string& file);

// Replaces what the calibration gives.
void Apply(const ClusterCalibration& calibration, ClusterParameters& cluster);

// "matrix efficiency 0.73, memory efficiency 0.8, ...": every value that predictions use.
std::string Describe(const ClusterParameters& cluster);

}  // namespace foretrace
