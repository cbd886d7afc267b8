#pragma once
// What the command place places: its backends, their measured and modelled times, the network.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/backends/backend.h"
#include "simulator/backends/operator_costs.h"
#include "simulator/backends/operator_view.h"
#include "simulator/hardware/accelerator.h"
#include "simulator/mapping/device_measurements.h"

namespace foretrace {

// Names or files of topologies/backends/. Errors: one twice, backends of several devices.
absl::StatusOr<std::vector<Backend>> LoadBackends(const std::vector<std::string>& names);
absl::StatusOr<OperatorCosts> LoadCosts(const std::vector<std::string>& files);

// A device whose kernels are modelled.
struct ModelledDevice {
  Accelerator device;
  std::shared_ptr<const DeviceMeasurements> kernels;

  KernelTimer timer() const {
    return [found = kernels](const KernelWork& work) { return found->KernelTime(work); };
  }
};
// `kernels` as FindMeasurements takes it. Errors: a name that no file describes, a device without
// published rates.
absl::StatusOr<ModelledDevice> FindModelledDevice(const std::string& name,
                                                  const std::string& kernels,
                                                  std::vector<std::string>& notes);

// A network or model, by name or file; nullopt: `name` is neither, but may be a recording. Errors:
// a network or model that is bad.
absl::StatusOr<std::optional<OperatorView>> FindNetwork(const std::string& name,
                                                        int32_t micro_batch,
                                                        std::vector<std::string>& notes);

}  // namespace foretrace
