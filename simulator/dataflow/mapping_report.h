#pragma once
// A mapping as JSON, as a picture, and from a file.

#include <string>

#include "absl/status/statusor.h"
#include "simulator/dataflow/mapping.h"

namespace foretrace::dataflow {

// The object of `dataflow --json`: iteration_ns, utilisation, mapping, tensors, exchanges, stages,
// partitions, roofline.
std::string MappingJson(const Workload& workload, const System& system,
                        const MappedWorkload& mapped);

// The graph, its kernels in columns of their partitions.
std::string MappingSvg(const Workload& workload, const MappedWorkload& mapped);

// What bounds the partition: "compute", "memory" or "network".
std::string_view BoundOf(const Partition& partition);
std::vector<std::string> KernelNames(const Workload& workload, const Partition& partition);

// A mapping as its file gives it; what it leaves out is the optimiser's to choose.
struct GivenMapping {
  SearchLimits limits;
  std::vector<Role> roles;  // empty: not given
};
// Errors: unknown kernels or axes; a kernel in two partitions or in none.
absl::StatusOr<GivenMapping> LoadMapping(const Workload& workload, const std::string& file);

}  // namespace foretrace::dataflow
