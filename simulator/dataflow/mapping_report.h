#pragma once
// A mapping as JSON and as a picture.

#include <string>
#include <vector>

#include "simulator/dataflow/mapping.h"

namespace foretrace::dataflow {

// The object of `dataflow --json`: iteration_ns, utilisation, mapping, tensors, exchanges, stages,
// partitions, roofline, and notes where there are any.
std::string MappingJson(const Workload& workload, const System& system,
                        const MappedWorkload& mapped, const std::vector<std::string>& notes);

// The graph, its kernels in columns of their partitions.
std::string MappingSvg(const Workload& workload, const MappedWorkload& mapped);

// What bounds the partition: "compute", "memory" or "network".
std::string_view BoundOf(const Partition& partition);
std::vector<std::string> KernelNames(const Workload& workload, const Partition& partition);

}  // namespace foretrace::dataflow
