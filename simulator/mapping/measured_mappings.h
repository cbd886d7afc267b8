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

// A table with vTrain's column names ("# GPUs", "global batch", "micro batch", "hidden size",
// "attention heads", "# layers", "sequence length", "tensor parallelism", "data parallelism",
// "pipeline parallelism", "iteration time (ms)"; others are ignored, a byte-order mark is fine).
// The table says neither vocabulary nor recomputation. A table without commas but with braces is
// read as Calculon's file of Megatron-LM's table 5: JSON, an object a row with
// "measured_iteration_s", "application" and "execution"; its rows say how they recompute. Errors:
// missing columns, fields that are no numbers, rows whose degrees do not divide; each with its
// line.
absl::StatusOr<std::vector<MeasuredMapping>> LoadMeasuredMappings(const std::string& path,
                                                                  int64_t vocabulary,
                                                                  Recompute recompute);

namespace internal {
absl::StatusOr<std::vector<MeasuredMapping>> LoadCalculonTable(const std::string& path,
                                                               const std::string& content,
                                                               int64_t vocabulary);
}  // namespace internal

// Parameters that a fit may change.
enum class ClusterParameter : uint8_t {
  kMatrixEfficiency,
  kMatrixHalfSize,
  kMemoryEfficiency,
  kNodeShare,
  kNicShare,
  kLaunchFloor,
  kProductSlowdown,
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
