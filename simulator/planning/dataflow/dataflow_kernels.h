#pragma once
// Kernels and collectives of dataflow graphs as the calibration of a device has them.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/dataflow/kernel_times.h"
#include "simulator/hardware/accelerator.h"
#include "simulator/mapping/iteration_model.h"
#include "simulator/topology/platform.h"

namespace foretrace {

// `kernels`: a folder of calibration files or the name of one in calibration/. `notes` learns what
// was found. All-reduces are taken where they were measured on nodes connected alike. Errors: it
// cannot be read or is of another device.
absl::StatusOr<std::unique_ptr<dataflow::KernelTimes>> FindKernelTimes(
    const std::string& kernels, const Accelerator& device, InterconnectKind within_node,
    std::vector<std::string>& notes);

// As iterations of the mapping have them on the cluster's devices: where its exchanges run beside
// GEMMs (ParallelMapping::chunked_tensor), these run part by part.
std::unique_ptr<dataflow::KernelTimes> KernelTimesOf(const ClusterParameters& cluster,
                                                     const ParallelMapping& mapping);

}  // namespace foretrace
